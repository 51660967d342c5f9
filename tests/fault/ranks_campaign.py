#!/usr/bin/env python3
"""Jobs of three ranks of which one fails, in every way and place, over every
transport; ranks that are slow, jobs at once, strangers, a secret.

    ./bazelw build //tools/weft
    tests/fault/ranks_campaign.py                       everything
    tests/fault/ranks_campaign.py --only abort,slow     what has it in its name
    tests/fault/ranks_campaign.py --share 24            as //tests/fault:ranks_test

A line for each case: how long the survivors took to name the rank that failed,
and to end. Everything happens in namespaces of its own (processes, network,
mounts) where they can be had, so that it sees all that is left.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import ranks
import strangers
from ranks import Failed, Job, wait_for

LOST = 138
HOW = ("kill", "stop", "exit0", "exit1", "abort")
PLACES = ("first", "middle", "last")
TRANSPORTS = ("shm", "grpc")
PHASES = ("all-reduce", "all-gather", "pipeline", "rendezvous")
ENDLESS = ["--set", "steps=100000000"]


class Settings:
    def __init__(self, args):
        self.weft = args.weft
        self.root = args.root
        self.share = args.share > 0
        self.seed = args.seed
        # What is promised, or what even a busy machine has to keep.
        self.named, self.ended = (30, 40) if self.share else (5, 10)
        self.flags = ["--peer-timeout", "1"] if self.share else []
        self.count = 20 if not self.share else 4
        self.strangers = 1000 if not self.share else 60


def watch(job, victim, survivors, began, settings):
    """Seconds until each survivor has named the victim, and has ended."""
    named, ended = {}, {}
    while len(ended) < len(survivors):
        now = time.monotonic() - began
        for r in survivors:
            if r not in named and re.search(
                    rf"WEFT-7001: rank {r}: .*\brank {victim}\b", job.err(r)):
                named[r] = now
            if r not in ended and not job.running(r):
                ended[r] = now
        if now > settings.ended + 20:
            break
        time.sleep(ranks.TICK)
    for r in survivors:
        if r not in ended:
            raise Failed(f"rank {r} still runs: {job.err(r)[-300:]}")
        if r not in named and not re.search(
                rf"WEFT-7001: rank {r}: .*\brank {victim}\b", job.err(r)):
            raise Failed(f"rank {r} does not name {victim}: "
                         f"{job.err(r)[-300:]}")
        named.setdefault(r, ended[r])
        code = job.processes[r].returncode
        if code != LOST:
            raise Failed(f"rank {r} ended with {code}: {job.err(r)[-300:]}")
    return max(named.values()), max(ended.values())


def bounds(named, ended, settings):
    if named > settings.named or ended > settings.ended:
        raise Failed(f"named after {named:.2f} s, ended after {ended:.2f} s")
    return f"named {named:5.2f} s  ended {ended:5.2f} s"


def joined(job, present):
    """Every rank that has come is connected to the coordinator."""
    return all(ranks.tcp({ranks.ESTABLISHED}, job.processes[r].pid)
               for r in present)


def one_fails(phase, how, place, transport, settings):
    job = Job(settings.weft, settings.root,
              "all-reduce" if phase == "rendezvous" else phase)
    try:
        victim = PLACES.index(place)
        flags = [*ENDLESS, "--transport", transport, *settings.flags]
        present = [0, 1, 2]
        if phase == "rendezvous":
            present.remove(1 if victim != 1 else 2)  # it never comes
        for r in present:
            job.start(r, flags)
        if phase == "rendezvous":
            wait_for(lambda: joined(job, present), job.patience, "connections")
            time.sleep(0.5)  # what they prove to each other
        else:
            job.await_steps()
        chance = random.Random(f"{settings.seed} {job.name[-3:]}")
        time.sleep(chance.random() * 0.3)
        present.remove(victim)
        for r in [victim, *present]:
            if not job.running(r):
                raise Failed(f"rank {r} ended early: {job.err(r)[-300:]}")
        began = time.monotonic()
        ranks.fail(job.processes[victim].pid, how)
        named, ended = watch(job, victim, present, began, settings)
        if phase == "rendezvous" and victim != 0 and ended < named + 1:
            # It waits for the one that has not come, but says why.
            raise Failed(f"named only after {named:.2f} s of {ended:.2f} s")
        process = job.processes[victim]
        if how == "stop":
            # Awake again, it learns that it was given up.
            process.send_signal(signal.SIGCONT)
            if process.wait(settings.ended) != LOST:
                raise Failed(f"the stopped one ended with {process.returncode}")
        else:
            wanted = {"kill": -9, "exit0": 0, "exit1": 1, "abort": -6}[how]
            if process.wait(settings.ended) != wanted:
                raise Failed(f"rank {victim} ended with {process.returncode}")
        return bounds(named, ended, settings)
    finally:
        job.close()


def under_launcher(how, transport, settings):
    """weft run ends all, tells the first cause, and has its exit code."""
    job = Job(settings.weft, settings.root)
    try:
        job.launch(["--grace", "5"], [*ENDLESS, "--transport", transport,
                                      *settings.flags])
        job.await_steps("run")
        pids = ranks.children(job.processes["run"].pid)
        victim = next(p for p in pids if
                      b"\0RANK=1\0" in b"\0" + open(f"/proc/{p}/environ",
                                                    "rb").read())
        began = time.monotonic()
        ranks.fail(victim, how)
        process, named = job.processes["run"], None
        while job.running("run"):
            ended = time.monotonic() - began
            if named is None and re.search(r"\brank 1\b.* is lost|rank 1 failed",
                                           job.err("run")):
                named = ended
            if ended > settings.ended + 20:
                raise Failed(f"the launcher runs: {job.err('run')[-300:]}")
            time.sleep(ranks.TICK)
        ended = time.monotonic() - began
        named = ended if named is None else named
        wanted = ranks.LAUNCHER_CODE[how]
        if process.returncode == 0 or wanted not in (None, process.returncode):
            raise Failed(f"the launcher ended with {process.returncode}: "
                         f"{job.err('run')[-300:]}")
        if "rank 1 failed first" not in job.err("run"):
            raise Failed(f"another cause: {job.err('run')[-400:]}")
        if any(os.path.exists(f"/proc/{p}") for p in pids):
            raise Failed("a rank is left")
        return bounds(named, ended, settings) + f"  code {process.returncode}"
    finally:
        job.close()


def not_lost(way, place, transport, settings):
    """One that runs 5 % of the time for 10 s, or not at all for 2 s, stays."""
    job = Job(settings.weft, settings.root)
    try:
        for r in range(3):
            job.start(r, [*ENDLESS, "--transport", transport])
        job.await_steps()
        victim = job.processes[PLACES.index(place)]
        if way == "stopped":
            victim.send_signal(signal.SIGSTOP)
            time.sleep(2)
            victim.send_signal(signal.SIGCONT)
        else:
            end = time.monotonic() + (3 if settings.share else 10)
            while time.monotonic() < end:
                victim.send_signal(signal.SIGSTOP)
                time.sleep(0.19)
                victim.send_signal(signal.SIGCONT)
                time.sleep(0.01)
        before = job.steps()
        wait_for(lambda: job.steps() > before + 3, 30, "steps after it")
        for r in range(3):
            if not job.running(r):
                raise Failed(f"rank {r} ended: {job.err(r)[-300:]}")
        victim.send_signal(signal.SIGTERM)
        for r in range(3):
            code = job.processes[r].wait(60)
            if code not in (0, -signal.SIGTERM):
                raise Failed(f"rank {r} ended with {code} after SIGTERM: "
                             f"{job.err(r)[-300:]}")
        return f"{before} steps when it was over"
    finally:
        job.close()


def at_once(settings):
    """Many launches at one moment: no port and no name is theirs alone."""
    jobs = [Job(settings.weft, settings.root, ranks=2, patience=300)
            for _ in range(settings.count)]
    began = time.monotonic()
    try:
        for i, job in enumerate(jobs):
            job.launch([], ["--set", "steps=3", "--transport",
                            TRANSPORTS[i % 2]])
        for job in jobs:
            if job.processes["run"].wait(300) != 0:
                raise Failed(job.err("run")[-400:])
        states = {(next(job.run_directory().glob("ckpt/step_*")) /
                   "model.safetensors").read_bytes() for job in jobs}
        if len(states) != 1:
            raise Failed(f"{len(states)} different results")
        return f"{len(jobs)} jobs in {time.monotonic() - began:.1f} s"
    finally:
        for job in jobs:
            job.close()


def cases(settings, traced):
    matrix = [(p, h, w, t) for p in PHASES for h in HOW for w in PLACES
              for t in TRANSPORTS]
    if settings.share:
        # Every phase with every way to fail; places and transports in turn.
        n = settings.share_cases
        matrix = [(PHASES[i % 4], HOW[i % 5], PLACES[(i + i // 12) % 3],
                   TRANSPORTS[(i + i // 4) % 2]) for i in range(n)]
    out = []
    for phase, how, place, transport in matrix:
        if traced or not how.startswith("exit"):
            out.append((f"{phase} {how} {place} {transport}",
                        lambda s, c=(phase, how, place, transport):
                        one_fails(*c, s)))
    for i, how in enumerate(HOW):
        for transport in TRANSPORTS:
            if settings.share and transport != TRANSPORTS[i % 2]:
                continue
            if traced or not how.startswith("exit"):
                out.append((f"run {how} middle {transport}",
                            lambda s, c=(how, transport):
                            under_launcher(*c, s)))
    for way in ("slow", "stopped"):
        for place in PLACES:
            for transport in TRANSPORTS:
                if not settings.share or (way, place, transport) in (
                        ("slow", "middle", "grpc"), ("slow", "last", "shm")):
                    out.append((f"{way} {place} {transport}",
                                lambda s, c=(way, place, transport):
                                not_lost(*c, s)))
    alone = [("jobs at once", at_once)]
    for transport in TRANSPORTS:
        alone.append((f"strangers {transport}", lambda s, t=transport:
                      strangers.campaign(t, s)))
    return out, alone


def run_case(name, body, settings, lock, failures):
    began = time.monotonic()
    try:
        result = body(settings)
    except (Failed, OSError, subprocess.TimeoutExpired) as error:
        result = f"FAILED: {error}"
        failures.append(name)
    with lock:
        print(f"{name:36} {time.monotonic() - began:6.1f} s  {result}",
              flush=True)


def in_namespaces():
    """Starts this program again as the first process of new namespaces."""
    words = ["unshare", "-Urnm", "--pid", "--fork", "--kill-child",
             "--mount-proc"]
    if shutil.which("unshare") and shutil.which("mount") and subprocess.run(
            [*words, "mount", "-t", "tmpfs", "none", "/dev/shm"],
            stderr=subprocess.DEVNULL, check=False).returncode == 0:
        os.execvp("unshare", [*words, sys.executable, *sys.argv, "--alone"])
    print("without namespaces: what is left is seen in part only")


def arguments():
    here = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--weft", default=str(here / "bazel-bin/tools/weft/weft"))
    parser.add_argument("--share", type=int, default=0, metavar="N",
                        help="N cases and some of the rest, time-out 1 s")
    parser.add_argument("--only", default="", help="words of names of cases")
    parser.add_argument("--jobs", type=int, default=3, help="cases at once")
    parser.add_argument("--seed", default="1", help="of moments")
    parser.add_argument("--root", default=os.environ.get("TEST_TMPDIR"),
                        help="where jobs are; default: a new folder")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.weft = os.path.abspath(args.weft)
    if not os.access(args.weft, os.X_OK):
        sys.exit(f"no program {args.weft}: --weft names it")
    return args


def main():
    args = arguments()
    if args.alone:
        for folder in ("/dev/shm", "/run"):
            subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
        ranks.come_up()
    else:
        in_namespaces()
    made = None
    if args.root is None:
        args.root = made = tempfile.mkdtemp(prefix="ranks_campaign.")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    settings = Settings(args)
    settings.share_cases = args.share
    why = ranks.can_trace()
    if why:
        print(f"without exit 0 and exit 1: {why}")
    surroundings = ranks.Surroundings(args.alone)
    together, alone = cases(settings, not why)
    failures, lock = [], threading.Lock()
    wanted = args.only.split(",")
    run = lambda c: run_case(*c, settings, lock, failures)
    chosen = lambda cs: [c for c in cs if any(w in c[0] for w in wanted)]
    together, alone = chosen(together), chosen(alone)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(run, together))
    for case in alone:
        run(case)
    run_case("nothing left", lambda s: surroundings.check(), settings, lock,
             failures)
    if made:
        shutil.rmtree(made, ignore_errors=True)
    print(f"{len(together) + len(alone) + 1} cases, {len(failures)} failed"
          + "".join(f"\n  {n}" for n in failures))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
