#!/usr/bin/python3
"""Data-parallel training in PyTorch: DistributedDataParallel over gloo.

    benchmarks/peers/torch_ddp.py --model mlp|lenet|resnet18|gpt [--ranks 2]

Each rank is a process with one thread on a core of its own and takes its part of
the batch; models, optimizers, clipping and batches are those of torch_train.py and
torch_gpt.py. --settings names what DistributedDataParallel is told, by default
all of these in turn: the best counts.

    plain    nothing
    view     gradient_as_bucket_view
    static   gradient_as_bucket_view, static_graph
    small    static, and buckets of 1 MiB, so that more is sent while others are
             computed
    one      static, and one bucket
    free     static, and processes go to any core

The environment is that of train.sh: it makes Debian's PyTorch use this machine's
vectors. Prints RESULT lines (benchmarks/result.h): wall milliseconds a step of rank 0, over
chunks of steps, the first left out.
"""
import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import torch_gpt
import torch_train

SETTINGS = {
    "plain": {},
    "view": {"gradient_as_bucket_view": True},
    "static": {"gradient_as_bucket_view": True, "static_graph": True},
    "small": {"gradient_as_bucket_view": True, "static_graph": True,
              "bucket_cap_mb": 1},
    "one": {"gradient_as_bucket_view": True, "static_graph": True,
            "bucket_cap_mb": 1000},
    "free": {"gradient_as_bucket_view": True, "static_graph": True},
}
ENVIRONMENT = {
    "OPENBLAS_CORETYPE": "SkylakeX",
    "ATEN_CPU_CAPABILITY": "avx512",
    "LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu/openblas-openmp",
    "OMP_NUM_THREADS": "1",
}


class Images:
    """Model, optimizer and batches of torch_train.py, a rank's part of them."""

    def __init__(self, args, rank):
        self.model = args.model
        count = 32 if args.model == "resnet18" else 128
        self.images, self.labels = torch_train.load(args.model, args.data)
        self.layout = (torch.contiguous_format if args.model == "mlp"
                       else torch.channels_last)
        self.net = torch_train.MODELS[args.model]().to(
            memory_format=self.layout)
        self.clips = args.model == "mlp"
        self.order = torch.randperm(len(self.labels))
        self.count, self.part = count, count // args.ranks
        self.first = rank * self.part

    def optimizer(self):
        return torch_train.make_optimizer(self.model, self.net)

    def loss(self, net, step):
        at = step * self.count % (len(self.labels) - self.count) + self.first
        batch = self.order[at:at + self.part]
        x = (self.images[batch].float() / 255 - 0.2860) / 0.3530
        x = x.to(memory_format=self.layout)
        return nn.functional.cross_entropy(net(x), self.labels[batch])


class Text:
    """The same of torch_gpt.py."""

    def __init__(self, args, rank):
        self.text = torch_gpt.read_text()
        self.net = torch_gpt.Gpt(args.dropout)
        self.clips = True
        self.part = torch_gpt.BATCH // args.ranks
        torch.manual_seed(rank)

    def optimizer(self):
        return torch_gpt.make_optimizer(self.net)

    def loss(self, net, step):
        return torch_gpt.loss(net, self.text, self.part)


def run(rank, args, setting, port, out):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    if setting != "free":
        os.sched_setaffinity(0, {rank % os.cpu_count()})
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:%d" % port,
                            rank=rank, world_size=args.ranks)
    job = (Text if args.model == "gpt" else Images)(args, rank)
    optimizer = job.optimizer()
    net = nn.parallel.DistributedDataParallel(job.net, **SETTINGS[setting])
    wall = []
    for step in range(args.steps + 1):
        if step % args.chunk == 0:
            wall.append(time.monotonic())
        loss = job.loss(net, step)
        optimizer.zero_grad()
        loss.backward()
        if job.clips:
            nn.utils.clip_grad_norm_(job.net.parameters(), 1.0)
        optimizer.step()
    if rank == 0:
        out.put([1000 * (b - a) / args.chunk
                 for a, b in zip(wall[1:], wall[2:])])
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="mlp",
                        choices=("mlp", "lenet", "resnet18", "gpt"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--data", help="of resnet18: as of torch_train.py")
    parser.add_argument("--dropout", type=float, default=0.0, help="of gpt")
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--chunk", type=int, default=0)
    args = parser.parse_args()
    chunk = {"mlp": 20, "lenet": 10}.get(args.model, 3)
    args.chunk = args.chunk or chunk
    args.steps = args.steps or 8 * args.chunk
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)  # of the processes
    for i, setting in enumerate(args.settings.split(",")):
        out = mp.get_context("spawn").SimpleQueue()
        mp.spawn(run, (args, setting, 29000 + os.getpid() % 900 + i, out),
                 nprocs=args.ranks)
        torch_train.result("torch %s %s, ddp %s" % (
            torch.__version__, args.model, setting), "wall/step", out.get(),
            "ms")


if __name__ == "__main__":
    main()
