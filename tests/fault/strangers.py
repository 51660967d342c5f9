"""Strangers at the doors of a job that trains, for tests/fault/ranks_campaign.py.

Some know nothing; some speak as ranks do; some even have the job's secret, as
a rank that is left over has. Nobody gets in, and the job ends with the bits of
one that nobody disturbed. Here is as much of gRPC, in plain sockets, as one
such visitor needs.
"""

import concurrent.futures
import contextlib
import hashlib
import hmac
import os
import random
import re
import signal
import socket
import struct
import time

import ranks
from eavesdropper import PREFACE, Eavesdropper
from impostors import (NOBODY, GrpcImpostor, ShmImpostor, shm_encode,
                       shm_knock)
from ranks import Failed, Job, wait_for

DATA, HEADERS, SETTINGS, PING = 0, 1, 4, 6
ACK = END_STREAM = 1
END_HEADERS = 4
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F",
            "00000000000000000000000001000000")


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def parse(message):
    """The fields of a message: the last value of each."""
    out, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = number()
        if key & 7 == 0:
            out[key >> 3] = number()
        else:
            size = number()
            out[key >> 3] = message[at:at + size]
            at += size
    return out


class Call:
    """One bidirectional stream of gRPC."""

    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.bytes = self.data = b""
        headers = b"".join(
            b"\0" + bytes([len(k)]) + k + bytes([len(v)]) + v for k, v in (
                (b":method", b"POST"), (b":scheme", b"http"),
                (b":path", path.encode()), (b":authority", b"localhost"),
                (b"content-type", b"application/grpc"), (b"te", b"trailers")))
        self.socket.sendall(PREFACE + self.frame(SETTINGS, 0, b"", 0) +
                            self.frame(HEADERS, END_HEADERS, headers))

    @staticmethod
    def frame(kind, flags, payload, stream=1):
        return struct.pack(">I", len(payload))[1:] + bytes(
            [kind, flags]) + struct.pack(">I", stream) + payload

    def send(self, message):
        self.socket.sendall(self.frame(
            DATA, 0, b"\0" + struct.pack(">I", len(message)) + message))

    def receive(self):
        """The next message; nothing at the end of the stream."""
        while True:
            if len(self.data) >= 5:
                size = struct.unpack(">I", self.data[1:5])[0]
                if len(self.data) >= 5 + size:
                    message = self.data[5:5 + size]
                    self.data = self.data[5 + size:]
                    return message
            while len(self.bytes) < 9 or len(self.bytes) < 9 + self.size():
                got = self.socket.recv(65536)
                if not got:
                    return None
                self.bytes += got
            size, kind, flags = self.size(), self.bytes[3], self.bytes[4]
            payload, self.bytes = self.bytes[9:9 + size], self.bytes[9 + size:]
            if kind == DATA:
                self.data += payload
            elif kind in (SETTINGS, PING) and not flags & ACK:
                answer = payload if kind == PING else b""
                self.socket.sendall(self.frame(kind, ACK, answer, 0))
            if kind in (DATA, HEADERS) and flags & END_STREAM and not self.data:
                return None

    def size(self):
        return int.from_bytes(self.bytes[:3], "big")


class Visitors:
    """Who knocks at the doors of one job."""

    def __init__(self, job, secret, seed):
        self.secret = secret
        self.random = random.Random(seed)
        self.boot = ranks.read("/proc/sys/kernel/random/boot_id").strip()
        self.job_id = "other"
        self.slowest = 0.0
        self.recorded = None
        # Rank 0 listens for the meeting first; where a transport has doors of
        # its own, they come with its options.
        self.pids = [p.pid for p in job.processes.values()]
        listening = [at for pid in self.pids
                     for at in ranks.tcp({ranks.LISTEN}, pid)]
        if any(address not in LOOPBACK for address, _ in listening):
            raise Failed(f"reached by other machines: {listening}")
        self.ports = {port for _, port in listening}
        self.coordinator = next(p for p in sorted(self.ports)
                                if self.is_coordinator(p))
        self.doors = [path for pid in self.pids
                      for path, link in ranks.descriptors(pid)
                      if "/weft-shm-" in link]
        # It says which job it is of.
        text = self.knock(self.coordinator, secret)
        self.job_id = re.search("the coordinator of job '(.*)'", text)[1]

    def is_coordinator(self, port):
        try:
            call = Call(port, "/weft.rendezvous.Meeting/Join")
            with call.socket:
                call.socket.settimeout(2)
                return bool(call.receive())
        except OSError:
            return False

    def knock(self, port, secret, record=None, **changes):
        """What the coordinator says to a hello."""
        call = Call(port, "/weft.rendezvous.Meeting/Join")
        with call.socket:
            challenge = parse(parse(call.receive())[1])[1]
            began = time.monotonic()
            if record is None:
                values = {"rank": 1, "epoch": 0, "incarnation": 1}
                values.update(changes)
                hello = (field(1, values["rank"]) + field(2, 3) +
                         field(3, self.job_id) + field(4, values["epoch"]) +
                         field(5, values["incarnation"]) + field(6, "here") +
                         field(7, self.boot) + field(8, 1))
                nonce = os.urandom(16)
                parts = (b"weft rank", challenge, nonce, hello)
                text = b"".join(b"%d:%s" % (len(p), p) for p in parts)
                proof = hmac.new(secret, text, hashlib.sha256).digest()
                record = field(1, hello) + field(2, nonce) + field(3, proof)
                self.recorded = record
            call.send(field(1, record))
            answer = parse(call.receive() or b"")
            self.slowest = max(self.slowest, time.monotonic() - began)
        if 3 not in answer:
            raise Failed(f"let in: {answer}")
        return parse(answer[3])[2].decode()

    def expect(self, text, answer):
        if text not in answer:
            raise Failed(f"refused with '{answer}', not with '{text}'")

    # One visit each.

    def wrong_secret(self):
        self.expect("does not have the secret",
                    self.knock(self.coordinator, os.urandom(16)))

    def replayed(self):
        self.expect("does not have the secret",
                    self.knock(self.coordinator, b"", self.recorded))

    def other_start(self):
        self.expect("left over",
                    self.knock(self.coordinator, self.secret, epoch=7))

    def old_incarnation(self):
        self.expect("two of one rank",
                    self.knock(self.coordinator, self.secret))

    def noise(self):
        return self.random.randbytes(self.random.randrange(1, 3000))

    def garbage(self):
        port = self.random.choice(sorted(self.ports))
        with socket.create_connection(("127.0.0.1", port), 10) as s, \
                contextlib.suppress(ConnectionError):  # turned out meanwhile
            if self.random.random() < 0.5:
                s.sendall(PREFACE)
            s.sendall(self.noise())

    def garbled_call(self):
        """gRPC, but no hello in it."""
        port = self.random.choice(sorted(self.ports))
        path = ("/weft.rendezvous.Meeting/Join" if port == self.coordinator
                else "/weft.Transport/Stream")
        call = Call(port, path)
        with call.socket, contextlib.suppress(ConnectionError):
            call.send(self.noise())
            while True:  # until it is shown the door
                if call.receive() is None:
                    break

    def silent(self):
        port = self.random.choice(sorted(self.ports))
        socket.create_connection(("127.0.0.1", port), 10).close()

    def at_door(self):
        """Of shared memory: noise, or a frame of the right form."""
        packet = self.noise()
        if self.random.random() < 0.5:
            address = os.urandom(16).hex().encode()
            packet = shm_encode(dict(NOBODY, address=address))
        shm_knock(self.random.choice(self.doors), packet)


def secret_is_nowhere(job, secret):
    for key, process in job.processes.items():
        if not job.running(key):
            continue
        for name in ("cmdline", "environ"):
            with open(f"/proc/{process.pid}/{name}", "rb") as file:
                if secret in file.read():
                    raise Failed(f"the secret is in {name}")
    for path in job.folder.rglob("*"):
        if path.is_file() and path.name != "secret":
            if secret in path.read_bytes():
                raise Failed(f"the secret is in {path}")


def eavesdrop():
    try:
        return Eavesdropper()
    except PermissionError:
        print("nobody eavesdrops: that may not be here")
        return None


def impostor_of(transport, eavesdropper, secret):
    if transport == "shm":
        return ShmImpostor(eavesdropper)
    return GrpcImpostor(lambda port: Call(port, "/weft.Transport/Stream"),
                        eavesdropper, secret)


def campaign(transport, settings):
    job = Job(settings.weft, settings.root)
    eavesdropper = eavesdrop()
    try:
        secret = os.urandom(16).hex().encode()
        path = job.folder / "secret"
        path.touch(0o600)
        path.write_bytes(secret)
        for r in range(3):
            job.start(r, ["--set", "steps=100000000", "--transport", transport],
                      {"WEFT_SECRET_FILE": path})
        job.await_steps()
        if eavesdropper:
            eavesdropper.close()
        secret_is_nowhere(job, secret)
        visitors = Visitors(job, secret, settings.seed)
        kinds = [visitors.wrong_secret, visitors.replayed, visitors.other_start,
                 visitors.old_incarnation, visitors.garbage,
                 visitors.garbled_call, visitors.silent]
        if transport == "shm":
            if not visitors.doors:
                raise Failed("no door of shared memory")
            kinds += [visitors.at_door] * 3
        impostor = eavesdropper and impostor_of(transport, eavesdropper, secret)
        if impostor:
            kinds += impostor.visits()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda visit: visit(), [kinds[i % len(kinds)] for i in
                                           range(settings.strangers)]))
        slowest = max(v.slowest for v in (visitors, impostor) if v)
        if slowest > (30 if settings.share else 1):
            raise Failed(f"refused after {slowest:.2f} s")
        before = job.steps()
        wait_for(lambda: job.steps() > before + 3, 30, "steps after them")
        job.processes[0].send_signal(signal.SIGTERM)
        for r in range(3):
            if job.processes[r].wait(60) not in (0, -signal.SIGTERM):
                raise Failed(f"rank {r}: {job.err(r)[-300:]}")
        secret_is_nowhere(job, secret)
        same_bits(job, settings)
        return (f"{settings.strangers} refused, the slowest hello after "
                f"{slowest:.2f} s; same bits")
    finally:
        if eavesdropper:
            eavesdropper.close()
        job.close()


def same_bits(job, settings):
    """As of threads of one process, which nobody visits."""
    last = sorted(job.run_directory().glob("ckpt/step_*"))[-1]
    steps = int(last.name[5:])
    job.spawn("alone", ["train", "job.txtpb", "--virtual-ranks", "3", "--set",
                        f"steps={steps}", "--run-dir", "alone"], {})
    if job.processes["alone"].wait(300) != 0:
        raise Failed(job.err("alone")[-300:])
    other = next(job.folder.glob(f"alone/*/ckpt/{last.name}"))
    for name in ("model.safetensors", "optim.safetensors"):
        if (last / name).read_bytes() != (other / name).read_bytes():
            raise Failed(f"other bits in {name} after {steps} steps")
