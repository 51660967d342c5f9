#!/usr/bin/python3
"""All-reduce of f32 by torch.distributed over gloo: see all_reduce.sh.

    torch_all_reduce.py RANKS
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZES = [("4KiB", 4 << 10, 300), ("1MiB", 1 << 20, 20),
         ("64MiB", 64 << 20, 1), ("256MiB", 256 << 20, 1)]


def run(rank, ranks, port):
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {rank % os.cpu_count()})
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:%d" % port,
                            rank=rank, world_size=ranks)
    for name, size, calls in SIZES:
        tensor = torch.zeros(size // 4)
        values = []
        for i in range(-1, 7):
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(calls):
                dist.all_reduce(tensor)
            if i >= 0:
                values.append((time.perf_counter() - begin) / calls * 1e6)
        if rank == 0:
            print("RESULT", "all_reduce", "torch gloo p%d" % ranks, name,
                  *("%.4g" % v for v in (statistics.median(values),
                                         min(values), max(values))),
                  len(values), "us", sep="\t", flush=True)


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    mp.spawn(run, (ranks, 29400 + os.getpid() % 500), nprocs=ranks)
