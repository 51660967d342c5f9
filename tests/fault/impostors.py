"""Who speaks as a rank of a job that trains, with what an eavesdropper heard, for
tests/fault/strangers.py.

What was heard is of no use as it is, and who can even change it, because he has
the job's secret or is the same user, is told in which way he is not of this job.
"""

import hashlib
import hmac
import os
import socket
import struct
import time

from ranks import Failed


class Impostor:
    """Of any transport: `hello` has the fields of a rank's own, ask() says them
    with changes and returns why they are refused. `own`: the field that is
    random in each process."""

    slowest = 0.0

    def timed(self, talk, *words):
        began = time.monotonic()
        answer = talk(*words)
        self.slowest = max(self.slowest, time.monotonic() - began)
        return answer

    def refused(self, text, **changes):
        why = self.ask(**changes)
        if text not in why:
            raise Failed(f"{changes}: refused with '{why}', not with '{text}'")

    def wrong_plan(self):
        self.refused("plan", plan=self.hello["plan"] ^ 1)

    def stale_incarnation(self):
        """With what another process of the rank would have of its own."""
        self.refused("incarnation", **{self.own: os.urandom(16).hex().encode()})

    def other_job(self):
        self.refused("job", job=b"another")

    def other_start(self):
        self.refused("epoch", epoch=self.hello["epoch"] + 1)

    def visits(self):
        return [self.wrong_plan, self.stale_incarnation, self.other_job,
                self.other_start]


# ---- transport/grpc ---------------------------------------------------------

HELLO, CHALLENGE, PROOF, WELCOME, REFUSE = 1, 2, 3, 4, 6
HEAD = ["magic", "kind", "plugin", "wire", "rank", "world", "epoch",
        "incarnation", "plan"]


def key_of(secret, purpose):
    parts = (b"weft key", purpose)
    text = b"".join(b"%d:%s" % (len(p), p) for p in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()


def parse(frame):
    """Of transport/grpc/wire.h."""
    out = dict(zip(HEAD, struct.unpack_from("<6I3Q", frame)))
    at = struct.calcsize("<6I3Q")

    def text():
        nonlocal at
        size = struct.unpack_from("<I", frame, at)[0]
        at += 4 + size
        return frame[at - size:at]
    out["job"] = text()
    out["limits"] = frame[at:at + 20]
    at += 20
    for name in ("token", "nonce", "proof"):
        out[name] = text()
    out["reason"] = struct.unpack_from("<I", frame, at)[0]
    at += 4
    out["why"] = text()
    return out


def encode(frame):
    def text(name):
        return struct.pack("<I", len(frame[name])) + frame[name]
    return (struct.pack("<6I3Q", *(frame[name] for name in HEAD)) +
            text("job") + frame["limits"] + text("token") + text("nonce") +
            text("proof") + struct.pack("<I", frame["reason"]) + text("why"))


class GrpcImpostor(Impostor):
    """Has the job's secret, too."""

    own = "nonce"

    def __init__(self, call, eavesdropper, secret):
        self.call = call  # opens a stream at a port
        self.key = key_of(secret, b"transport")
        self.port, self.first, self.proof = self.heard(eavesdropper)
        self.hello = parse(self.first)

    @staticmethod
    def heard(eavesdropper):
        """The port of a listener, and the hello and the proof of a rank."""
        for port, messages in eavesdropper.first_calls():
            frames = [m for m in messages if m[:4] == b"wgrp"]
            kinds = [parse(m)["kind"] for m in frames]
            if kinds[:2] == [HELLO, PROOF]:
                return port, frames[0], frames[1]
        raise Failed("no hello was heard")

    def speak(self, hello, prove):
        """The answer after the proof; nothing where there is none."""
        call = self.call(self.port)
        with call.socket:
            call.send(hello)
            challenge = parse(call.receive())
            if challenge["kind"] != CHALLENGE:
                raise Failed(f"no challenge: {challenge}")
            call.send(prove(challenge))
            answer = call.receive()
        return parse(answer) if answer else None

    def dropped(self, hello, prove):
        answer = self.timed(self.speak, hello, prove)
        if answer is not None:
            raise Failed(f"not dropped: {answer}")

    def replayed_hello(self):
        """The hello and the proof that were heard."""
        self.dropped(self.first, lambda challenge: self.proof)

    def made_up_proof(self):
        frame = parse(self.proof)
        frame["proof"] = os.urandom(32)
        self.dropped(self.first, lambda challenge: encode(frame))

    def ask(self, **changes):
        first = encode({**self.hello, "nonce": os.urandom(32), **changes})

        def prove(challenge):
            said = first + encode(dict(challenge, proof=b""))
            proof = hmac.new(self.key, b"weft connector\0" + said,
                             hashlib.sha256).digest()
            return encode(dict(parse(self.proof), proof=proof))
        answer = self.timed(self.speak, first, prove)
        if answer is None or answer["kind"] != REFUSE:
            raise Failed(f"{changes}: not refused: {answer}")
        return answer["why"].decode()

    def visits(self):
        return super().visits() + [self.replayed_hello, self.made_up_proof]


# ---- transport/shm ----------------------------------------------------------

# Of transport/shm/handshake.h.
SHM_MAGIC = 0x6D687377
SHM_HELLO, SHM_REFUSE = 1, 4
SHM_HEAD = ["magic", "plugin", "kind", "rank", "world", "wire", "epoch",
            "incarnation", "plan", "eager_max", "credits", "max_inflight",
            "expected", "reason", "job_size", "why_size", "token", "address",
            "job", "why"]
SHM_FRAME = struct.Struct("=6I4Q6I32s32s128s224s")
NOBODY = dict(dict.fromkeys(SHM_HEAD, 0), magic=SHM_MAGIC, plugin=1,
              kind=SHM_HELLO, rank=1, world=3, wire=1, incarnation=1, plan=1,
              eager_max=4096, credits=64, max_inflight=65536, job=b"", why=b"",
              token=b"", address=b"")
# "shm rank PID FD 0 TOKEN" in hexadecimal, as ranks tell each other.
SHM_ADDRESS = rb"(73686d2072616e6b20(?:[0-9a-f]{2})+)"


def shm_parse(frame):
    out = dict(zip(SHM_HEAD, SHM_FRAME.unpack(frame)))
    for name in ("job", "why"):
        out[name] = out[name][:out.pop(name + "_size")]
    return out


def shm_encode(frame):
    sizes = {name + "_size": len(frame[name]) for name in ("job", "why")}
    frame = dict(frame, **sizes)
    return SHM_FRAME.pack(*(frame[name] for name in SHM_HEAD))


def shm_knock(door, packet):
    """What a rank says to a packet; nothing where it hangs up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(10)
        s.connect(door)
        try:
            s.send(packet)
            return s.recv(4096)
        except ConnectionError:
            return b""


class ShmImpostor(Impostor):
    """A process of the same user, who may open the doors. That the addresses
    were heard takes rights that it does not have by that."""

    own = "token"

    def __init__(self, eavesdropper):
        doors = {}
        for text, in eavesdropper.find(SHM_ADDRESS):
            _, _, pid, fd, _, token = bytes.fromhex(text.decode()).split()
            doors[f"/proc/{pid.decode()}/fd/{fd.decode()}"] = token
        # Who is refused is told all about who refuses.
        self.hello, answers = NOBODY, {}
        for self.door, self.token in doors.items():
            answer = self.answer()
            answers[answer["rank"]] = (self.door, answer)
        if sorted(answers) != [0, 1, 2]:
            raise Failed(f"doors of these ranks: {sorted(answers)}")
        # As rank 0 has said it to rank 1, to the last byte.
        self.door, theirs = answers[1]
        self.token = theirs["token"]
        self.hello = dict(answers[0][1], kind=SHM_HELLO, expected=1, reason=0,
                          why=b"")

    def answer(self, **changes):
        frame = dict(self.hello, address=self.token, **changes)
        answer = self.timed(shm_knock, self.door, shm_encode(frame))
        if not answer or shm_parse(answer)["kind"] != SHM_REFUSE:
            raise Failed(f"{changes}: not refused: {answer[:80]}")
        return shm_parse(answer)

    def ask(self, **changes):
        return self.answer(**changes)["why"].decode()

    def replayed_hello(self):
        self.refused("incarnation")

    def made_up_token(self):
        made_up = os.urandom(16).hex().encode()
        packet = shm_encode(dict(self.hello, address=made_up))
        answer = self.timed(shm_knock, self.door, packet)
        if answer:
            raise Failed(f"not dropped: {shm_parse(answer)}")

    def visits(self):
        return super().visits() + [self.replayed_hello, self.made_up_token]
