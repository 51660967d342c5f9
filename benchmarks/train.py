#!/usr/bin/env python3
"""Figures of whole training runs of the `weft` program, in RESULT lines.

    benchmarks/train.py startup  [--runs 5]
    benchmarks/train.py step     [--job lenet] [--runs 3] [--set runtime.threads=1]
    benchmarks/train.py accuracy [--job mlp] [--seeds 1,2,3,4,5]

startup   seconds from exec to the end of the first step, those of reading and
          inflating the data, and the difference
step      wall and CPU milliseconds of a step, and samples a second: two runs of
          different length, divided; start-up and evaluation cancel out
accuracy  of the job as its file says, by seed; also planned memory and the peak
          that the operating system saw

Build first, optimised: ./bazelw build -c opt //:weft. --weft names another
program. Nothing but Python's standard library is used.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def result(section, name, metric, values, unit):
    print("RESULT", section, name, metric, *("%.4g" % v for v in (
        statistics.median(values), min(values), max(values))), len(values),
        unit, sep="\t", flush=True)


class Runner:
    def __init__(self, args):
        self.args = args
        self.job = os.path.join(ROOT, "examples",
                                "fashion_mnist_%s.txtpb" % args.job)

    def train(self, *sets):
        """Runs once; returns the program's result with its times and peak."""
        with tempfile.TemporaryDirectory() as runs:
            command = [self.args.weft, "train", self.job, "--json", "--quiet",
                       "--run-dir", runs]
            for s in list(sets) + self.args.set:
                command += ["--set", s]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            begin = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True)
            wall = time.monotonic() - begin
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(done.stderr)
        out = json.loads(done.stdout[done.stdout.index("{"):])
        out["wall"] = wall
        out["cpu"] = (after.ru_utime + after.ru_stime -
                      before.ru_utime - before.ru_stime)
        out["rss"] = after.ru_maxrss * 1024  # the largest child so far
        return out


def startup(runner):
    runs = [runner.train("epochs=0", "steps=150")
            for _ in range(runner.args.runs)]
    first = [r["first_step_seconds"] for r in runs]
    data = [r["inflate_seconds"] for r in runs]
    name = "weft " + runner.args.job
    result("startup", name, "exec to first finished step", first, "s")
    result("startup", name, "of it reading data", data, "s")
    result("startup", name, "the rest", [f - d for f, d in zip(first, data)],
           "s")


def step(runner):
    short, steps = 120, runner.args.steps
    batch = 128  # as the peer's, whatever the job's own
    fixed = ("epochs=0", "batch_size=%d" % batch)
    wall, cpu = [], []
    for _ in range(runner.args.runs):
        a = runner.train("steps=%d" % short, *fixed)
        b = runner.train("steps=%d" % (short + steps), *fixed)
        wall.append(1000 * (b["wall"] - a["wall"]) / steps)
        cpu.append(1000 * (b["cpu"] - a["cpu"]) / steps)
    name = " ".join(["weft", runner.args.job] + runner.args.set)
    result("train", name, "wall/step", wall, "ms")
    result("train", name, "cpu/step", cpu, "ms")
    result("train", name, "samples/s", [1000 * batch / w for w in wall], "1/s")


def accuracy(runner):
    found, planned, rss = [], 0, 0
    name = "weft " + runner.args.job
    for seed in runner.args.seeds.split(","):
        r = runner.train("seed=" + seed)
        found.append(100 * r["eval_accuracy"])
        planned, rss = sum(r["device_bytes"].values()), r["rss"]
        result("accuracy", name + " seed " + seed, "test accuracy",
               found[-1:], "%")
    result("accuracy", name, "test accuracy, median", found, "%")
    result("memory", name, "planned on devices", [planned], "bytes")
    result("memory", name, "peak resident, whole process", [rss], "bytes")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("startup", "step", "accuracy"))
    parser.add_argument("--weft", default=os.path.join(
        ROOT, "bazel-bin", "tools", "weft", "weft"))
    parser.add_argument("--job", choices=("mlp", "lenet"), default="mlp")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    {"startup": startup, "step": step, "accuracy": accuracy}[args.what](
        Runner(args))


if __name__ == "__main__":
    main()
