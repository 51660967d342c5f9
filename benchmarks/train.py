#!/usr/bin/env python3
"""Figures of whole training runs of the `weft` program, in RESULT lines.

    benchmarks/train.py startup  [--runs 5]
    benchmarks/train.py step     [--job lenet] [--runs 3] [--set runtime.threads=1]
    benchmarks/train.py ranks    [--job gpt] [--runs 5] [--axis model]
    benchmarks/train.py accuracy [--job mlp] [--seeds 1,2,3,4,5]

startup   seconds from exec to the end of the first step, those of reading and
          inflating the data, and the difference
step      wall and CPU milliseconds of a step, and samples a second: two runs of
          different length, divided; start-up and evaluation cancel out
ranks     the same batch on one process, on a core, and on two of one thread each;
          and two of PyTorch (peers/torch_ddp.py, with the settings that are
          fastest in the first round), one after the other in each round;
          with --axis the two share values, not micro-batches (docs/sharding.md);
          resnet18 needs --data, the directory of made_up_images.py
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
        name = ("gpt_licenses" if args.job == "gpt"
                else "fashion_mnist_%s" % args.job)
        self.job = os.path.join(ROOT, "examples", name + ".txtpb")

    def command(self, program, runs, sets, job=None):
        command = program + [job or self.job, "--quiet", "--run-dir", runs]
        for s in list(sets) + self.args.set:
            command += ["--set", s]
        return command

    def train(self, *sets):
        """Runs once; returns the program's result with its times and peak."""
        with tempfile.TemporaryDirectory() as runs:
            command = self.command([self.args.weft, "train", "--json"], runs,
                                   sets)
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


# As benchmarks/peers has them: batch, steps of the short run and of the
# difference, what else differs from the example.
RANKS = {
    "mlp": (128, 200, 1500, []),
    "lenet": (128, 60, 300, []),
    "gpt": (32, 8, 40, ["model.builtin.args.dropout=0"]),
    "resnet18": (32, 4, 12, []),
}


def ranks(runner):
    args = runner.args
    batch, short, steps, sets = RANKS[args.job]
    sets = sets + ["epochs=0", "batch_size=%d" % batch, "runtime.threads=1",
                   "eval.every_epochs=0",
                   "optimizer.schedule.cosine.warmup_steps=0"]
    if args.data:
        for part in ("train", "eval"):
            for kind in ("images", "labels"):
                sets.append("data.%s.idx.%s=%s/%s.gz" %
                            (part, kind, args.data, kind))

    def seconds(program, more, steps, axis):
        with tempfile.TemporaryDirectory() as runs:
            job = runner.job
            if axis:
                job = os.path.join(runs, "job.txtpb")
                with open(runner.job) as of, open(job, "w") as to:
                    to.write(of.read() + 'mesh { axis { name: "%s" size: 2 } }'
                             % axis)
            begin = time.monotonic()
            done = subprocess.run(
                runner.command(program, runs,
                               sets + more + ["steps=%d" % steps], job),
                capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            return time.monotonic() - begin

    def ours(program, more=(), axis=""):
        a = seconds(program, list(more), short, axis)
        b = seconds(program, list(more), short + steps, axis)
        return 1000 * (b - a) / steps

    def peer(settings):
        command = [args.python, os.path.join(
            ROOT, "benchmarks", "peers", "torch_ddp.py"), "--model", args.job]
        command += ["--settings", settings] if settings else []
        command += ["--data", args.data] if args.data else []
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        found = {}
        for line in done.stdout.splitlines():
            fields = line.split("\t")
            found[fields[2]] = float(fields[4])
        name = min(found, key=found.get)
        return name, found[name]

    one, two, torch, best = [], [], [], args.settings
    for _ in range(args.runs):
        one.append(ours(["taskset", "-c", "0", args.weft, "train"]))
        two.append(ours([args.weft, "run", "--nproc-per-node", "2"],
                        ["runtime.bind_threads=true"], args.axis))
        if args.python:
            best, ms = peer(best.split(" ")[-1])
            torch.append(ms)
    for name, values in (("weft %s, 1 process" % args.job, one),
                         ("weft %s, 2 processes" % args.job, two),
                         (best, torch)):
        if values:
            result("ranks", name, "wall/step", values, "ms")
    name = "weft %s, 2 processes" % args.job
    result("ranks", name, "times as fast as 1",
           [a / b for a, b in zip(one, two)], "x")
    if torch:
        result("ranks", name, "times as fast as torch",
               [a / b for a, b in zip(torch, two)], "x")


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
    parser.add_argument("what", choices=("startup", "step", "ranks", "accuracy"))
    parser.add_argument("--weft", default=os.path.join(
        ROOT, "bazel-bin", "tools", "weft", "weft"))
    parser.add_argument("--job", choices=sorted(RANKS), default="mlp")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--data", help="of resnet18")
    parser.add_argument("--axis", default="",
                        help="of ranks: the name of their mesh's only axis")
    parser.add_argument("--settings", default="",
                        help="of ranks: those of torch_ddp.py in the first "
                        "round, else all")
    parser.add_argument("--python", default="/usr/bin/python3",
                        help="of ranks: one that has torch; empty: ours alone")
    args = parser.parse_args()
    {"startup": startup, "step": step, "ranks": ranks,
     "accuracy": accuracy}[args.what](Runner(args))


if __name__ == "__main__":
    main()
