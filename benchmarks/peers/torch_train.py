#!/usr/bin/python3
"""PyTorch peer of the example jobs: the time of a training step.

    benchmarks/peers/torch_train.py --model mlp --steps 200 --threads 1
    benchmarks/peers/torch_train.py --model resnet18 --data DIRECTORY --steps 12

The recipe is that of examples/fashion_mnist_mlp.txtpb, _lenet.txtpb and
_resnet18.txtpb: same layers, optimizer and clipping, batches of 128, data from
the same Debian package (dataset-fashion-mnist); for resnet18 batches of 32 and the
images of benchmarks/made_up_images.py. PyTorch itself is Debian's python3-torch,
with libopenblas0-openmp (see benchmarks/train.sh for the environment that makes
it use this machine's vectors; without it PyTorch is slower). Prints RESULT
lines (benchmarks/result.h): wall and CPU milliseconds a step, over chunks of 20
steps (3 of resnet18), the first left out; and the seconds from the start of the
process to the end of the first step, without those of reading the data.
"""
import time
BEGIN = time.monotonic()
import argparse
import gzip
import statistics

import numpy
import torch
from torch import nn

DATA = "/usr/share/datasets/fashion-mnist/train-"


def read(path, offset):
    with gzip.open(path) as f:
        return numpy.frombuffer(f.read(), numpy.uint8, offset=offset).copy()


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(),
                         nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(),
                         nn.Linear(128, 10))


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs))
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64),
              nn.ReLU()]
    inputs = 64
    for stage in range(4):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Block(inputs, 64 << stage, stride))
            inputs = 64 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(inputs, 10))


MODELS = {"mlp": mlp, "lenet": lenet, "resnet18": resnet18}


def load(model, data):
    """Pixels and labels; `data` is a directory of the images of resnet18."""
    resnet = model == "resnet18"
    files = ((data + "/images.gz", data + "/labels.gz") if resnet else
             (DATA + "images-idx3-ubyte.gz", DATA + "labels-idx1-ubyte.gz"))
    shape = (-1, 3, 32, 32) if resnet else (-1, 1, 28, 28)
    images = torch.from_numpy(
        read(files[0], 20 if resnet else 16).reshape(shape))
    return images, torch.from_numpy(read(files[1], 8).astype(numpy.int64))


def make_optimizer(model, net):
    if model == "lenet":
        return torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    return torch.optim.SGD(net.parameters(),
                           lr=0.05 if model == "resnet18" else 0.1,
                           momentum=0.9, weight_decay=5e-4)


def result(name, metric, values, unit):
    print("RESULT", "train", name, metric, *("%.4g" % v for v in (
        statistics.median(values), min(values), max(values))), len(values),
        unit, sep="\t", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=sorted(MODELS), default="mlp")
    parser.add_argument("--data", help="of resnet18: see above")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--channels_last", action="store_true")
    parser.add_argument("--script", action="store_true",
                        help="through torch.jit.script; else eager")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    data_begin = time.monotonic()
    resnet = args.model == "resnet18"
    count, chunk = (32, 3) if resnet else (128, 20)
    images, labels = load(args.model, args.data)
    data_seconds = time.monotonic() - data_begin
    net = MODELS[args.model]()
    layout = (torch.channels_last if args.channels_last
              else torch.contiguous_format)
    net = net.to(memory_format=layout)
    if args.script:
        net = torch.jit.script(net)
    optimizer = make_optimizer(args.model, net)
    order = torch.randperm(len(labels))
    wall, cpu, first = [], [], None
    for step in range(args.steps):
        if step % chunk == 0:
            wall.append(time.monotonic())
            cpu.append(time.process_time())
        at = step * count % (len(labels) - count)
        batch = order[at:at + count]
        x = (images[batch].float() / 255 - 0.2860) / 0.3530
        x = x.to(memory_format=layout)
        loss = nn.functional.cross_entropy(net(x), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        if args.model == "mlp":
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if first is None:
            first = time.monotonic() - BEGIN - data_seconds
    name = "torch %s %s%s, %d threads" % (
        torch.__version__, args.model, " script" if args.script else "",
        args.threads)
    for metric, times in (("wall/step", wall), ("cpu/step", cpu)):
        result(name, metric, [1000 * (b - a) / chunk
                              for a, b in zip(times[1:], times[2:])], "ms")
    result(name, "start to first step, without reading data", [first], "s")


if __name__ == "__main__":
    main()
