"""Ranks that are processes, for tests/fault/ranks_campaign.py: starts them,
makes one of them fail, watches what the others say, looks what is left.

Ranks find each other as those of mpirun do, by the name of their job; rank 0
has the coordinator. Python 3 and nothing else.
"""

import ctypes
import os
import pathlib
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

TRAINS = "first step after"
TICK = 0.02

JOB = """
name: "ranks"
model { builtin { name: "gpt" args { key: "layers" value: "3" }
  args { key: "heads" value: "2" } args { key: "width" value: "32" } } }
data { train { text { path: "text" context: 16 byte {} } } }
optimizer { adamw {} schedule { constant { base: 0.001 } } }
batch_size: 12
epochs: 0
"""

# What the ranks of a job mostly do, by how the job is cut.
LAYOUTS = {
    "all-reduce": "",
    "all-gather": "zero: 3",
    "pipeline": 'pipeline { stages: 3 schedule: "1f1b" } micro_batches: 3',
}


class Failed(Exception):
    """What is not as it has to be."""


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(TICK)


class Job:
    """A folder with a job in it, and the processes that were started there."""

    count = 0

    def __init__(self, weft, root, layout="all-reduce", ranks=3, patience=60):
        Job.count += 1
        self.weft, self.ranks, self.patience = weft, ranks, patience
        self.name = f"campaign-{os.getpid()}-{time.time_ns()}-{Job.count}"
        self.folder = pathlib.Path(root) / f"job{Job.count}"
        self.folder.mkdir(parents=True)
        text = pathlib.Path(__file__).read_text()[:6000]
        (self.folder / "text").write_text(text)
        (self.folder / "job.txtpb").write_text(JOB + LAYOUTS[layout])
        self.processes = {}

    def start(self, rank, flags, environment=None):
        place = {
            "OMPI_COMM_WORLD_RANK": rank,
            "OMPI_COMM_WORLD_SIZE": self.ranks,
            "OMPI_COMM_WORLD_LOCAL_RANK": rank,
            "OMPI_COMM_WORLD_LOCAL_SIZE": self.ranks,
            "PMIX_NAMESPACE": self.name,
        }
        place.update(environment or {})
        self.spawn(rank, ["train", "job.txtpb", *flags], place)

    def launch(self, run_flags, flags):
        self.spawn("run", ["run", "--nproc-per-node", str(self.ranks),
                           *run_flags, "job.txtpb", *flags], {})

    def spawn(self, key, words, environment):
        kept = {k: v for k, v in os.environ.items()
                if k in ("PATH", "HOME", "TMPDIR")}
        kept.update({k: str(v) for k, v in environment.items()})
        with open(self.folder / f"out.{key}", "wb") as out, \
                open(self.folder / f"err.{key}", "wb") as err:
            self.processes[key] = subprocess.Popen(
                [self.weft, *words], cwd=self.folder, env=kept, stdout=out,
                stderr=err, stdin=subprocess.DEVNULL)

    def err(self, key):
        return read(self.folder / f"err.{key}")

    def running(self, key):
        return self.processes[key].poll() is None

    def await_steps(self, key=0):
        def trains():
            if not self.running(key):
                raise Failed(f"{key} ended: {self.err(key)[-400:]}")
            return TRAINS in self.err(key)
        wait_for(trains, self.patience, "first step")

    def run_directory(self):
        runs = sorted((self.folder / "runs").glob("*/"))
        if not runs:
            raise Failed("no run directory")
        return runs[-1]

    def steps(self):
        return read(self.run_directory() / "metrics.jsonl").count("\n")

    def close(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


# How a rank ends: without a word of its own, as by an exit() in some library.

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p,
                        ctypes.c_void_p]
GETREGS, SETREGS, DETACH, SEIZE, INTERRUPT = 12, 13, 17, 0x4206, 0x4207
WALL = 0x40000000
EXIT_GROUP = 231


def can_trace():
    """Why exit codes can't be had here, or nothing."""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        return "exits are made with ptrace on x86-64 only"
    child = subprocess.Popen(["sleep", "100"])
    try:
        make_exit(child.pid, 5)
        if child.wait(10) != 5:
            return "a traced process ends otherwise"
    except (OSError, Failed, subprocess.TimeoutExpired) as error:
        return f"no ptrace here: {error}"
    finally:
        child.kill()
        child.wait()
    return ""


def ptrace(request, pid, data=None):
    if libc.ptrace(request, pid, None, data) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def syscall_address(pid):
    """Of some system call in the code of a process."""
    for line in read(f"/proc/{pid}/maps").splitlines():
        if " r-xp " in line and ".so" in line:
            first, last = (int(x, 16) for x in line.split()[0].split("-"))
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                memory.seek(first)
                at = memory.read(last - first).find(b"\x0f\x05")
            if at >= 0:
                return first + at
    raise Failed("no system call in its code")


def make_exit(pid, code):
    """The main thread of a process calls _exit(code), wherever it is."""
    ptrace(SEIZE, pid)
    try:
        ptrace(INTERRUPT, pid)
        os.waitpid(pid, WALL)
        registers = (ctypes.c_uint64 * 27)()
        ptrace(GETREGS, pid, registers)
        registers[16] = syscall_address(pid)  # rip
        registers[14] = code  # rdi
        registers[10] = EXIT_GROUP  # rax
        registers[15] = 2**64 - 1  # orig_rax: no call to take up again
        ptrace(SETREGS, pid, registers)
    finally:
        ptrace(DETACH, pid)


def fail(pid, how):
    if how == "exit0":
        make_exit(pid, 0)
    elif how == "exit1":
        make_exit(pid, 1)
    else:
        os.kill(pid, {"kill": signal.SIGKILL, "stop": signal.SIGSTOP,
                      "abort": signal.SIGABRT}[how])


# The code of a launcher whose rank failed so; None: any but 0. One that is
# stopped is woken and learns that it is lost.
LAUNCHER_CODE = {"kill": 137, "stop": 138, "exit0": None, "exit1": 1,
                 "abort": 134}


# Sockets and descriptors of a process.

def descriptors(pid):
    """Path and target of each; what is closed meanwhile is left out."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        path = f"/proc/{pid}/fd/{name}"
        try:
            yield path, os.readlink(path)
        except OSError:
            continue


def inodes(pid):
    found = (re.fullmatch(r"socket:\[(\d+)\]", link)
             for _, link in descriptors(pid))
    return {match[1] for match in found if match}


ESTABLISHED, TIME_WAIT, LISTEN = "01", "06", "0A"


def tcp(states, of=None):
    """(address as in /proc, port) of sockets in a state, of a process or all."""
    own = None if of is None else inodes(of)
    out = []
    for table in ("tcp", "tcp6"):
        for line in read(f"/proc/net/{table}").splitlines()[1:]:
            field = line.split()
            if field[3] in states and (own is None or field[9] in own):
                address, port = field[1].split(":")
                out.append((address, int(port, 16)))
    return out


def children(pid):
    return [int(x) for x in
            read(f"/proc/{pid}/task/{pid}/children").split()]


# What is left where nothing should be.

def names_in(folders):
    out = set()
    for folder in folders:
        try:
            out |= {f"{folder}/{n}" for n in os.listdir(folder)}
        except OSError:
            pass
    return out


class Surroundings:
    """In namespaces of its own it sees all; else children and names."""

    def __init__(self, alone):
        self.alone = alone
        self.user = f"/run/user/{os.getuid()}"
        if alone:
            os.makedirs(self.user, exist_ok=True)
        self.before = self.names()

    def names(self):
        # Others work in /tmp, and without namespaces everywhere.
        return {n for n in names_in(["/tmp", "/dev/shm", self.user])
                if self.alone and not n.startswith("/tmp/")
                or "/weft-shm-" in n}

    def left(self):
        out = []
        if self.alone:
            while True:  # orphans that this process, the first, has adopted
                try:
                    if os.waitpid(-1, os.WNOHANG)[0] == 0:
                        break
                except ChildProcessError:
                    break
            out += [f"process {p}: {read(f'/proc/{p}/cmdline')[:60]!r}"
                    for p in os.listdir("/proc")
                    if p.isdigit() and int(p) != os.getpid()]
            every = {f"{i:02X}" for i in range(1, 13)} - {TIME_WAIT}
            out += [f"TCP socket {s}" for s in tcp(every)]
            out += [f"socket {line}" for line in
                    read("/proc/net/unix").splitlines()[1:]]
        else:
            out += [f"process {p}" for p in children(os.getpid())]
        out += [f"file {n}" for n in sorted(self.names() - self.before)]
        return out

    def check(self):
        end = time.monotonic() + 5
        while self.left() and time.monotonic() < end:
            time.sleep(0.1)
        if self.left():
            raise Failed("left: " + "; ".join(self.left()[:10]))


def come_up():
    """The loopback interface of a new network namespace."""
    import fcntl
    import socket
    with socket.socket() as s:
        request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)
        fcntl.ioctl(s, 0x8914, request)  # SIOCSIFFLAGS
