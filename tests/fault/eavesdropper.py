"""Who listens to the loopback network while a job connects its ranks by
transport/grpc, and then speaks as one of them, for tests/fault/strangers.py.

Without TLS everything can be read: the address's token, hellos, proofs. It is
of no use: a proof is good once, and who can even make one of his own, because
he has the job's secret, is told in which way he is not of this job.
"""

import hashlib
import hmac
import os
import socket
import struct
import threading
import time

from ranks import Failed

IPV4, TCP, OUTGOING = 0x0800, 6, 4
KEPT = 1 << 15  # bytes of a flow: hellos come first
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
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


class Eavesdropper:
    """Keeps how every TCP connection begins, until it is closed."""

    def __init__(self):
        self.flows, self.next = {}, {}
        self.over = threading.Event()
        # PermissionError where this may not be.
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM,
                                    socket.htons(IPV4))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
        self.socket.bind(("lo", 0))
        self.socket.settimeout(0.1)
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        while not self.over.is_set():
            try:
                packet, address = self.socket.recvfrom(1 << 17)
            except socket.timeout:
                continue
            if address[2] != OUTGOING and packet[9] == TCP:
                self.take(packet)

    def take(self, packet):
        begin = 4 * (packet[0] & 15)
        source, target, sequence = struct.unpack_from(">HHI", packet, begin)
        data = packet[begin + 4 * (packet[begin + 12] >> 4):]
        flow = (source, target)
        if packet[begin + 13] & 2:  # SYN: maybe of a port that is used again
            self.flows[flow], self.next[flow] = b"", sequence + 1
        elif data and self.next.get(flow) == sequence:
            self.next[flow] = (sequence + len(data)) & 0xffffffff
            if len(self.flows[flow]) < KEPT:
                self.flows[flow] += data

    def close(self):
        self.over.set()
        self.thread.join()
        self.socket.close()

    def messages(self, flow):
        """What a client of gRPC said in its calls."""
        data, bytes_ = b"", self.flows[flow]
        if not bytes_.startswith(PREFACE):
            return []
        at = len(PREFACE)
        while at + 9 <= len(bytes_):
            size = int.from_bytes(bytes_[at:at + 3], "big")
            if bytes_[at + 3] == 0:  # DATA
                data += bytes_[at + 9:at + 9 + size]
            at += 9 + size
        out = []
        while len(data) >= 5:
            size = struct.unpack_from(">I", data, 1)[0]
            out.append(data[5:5 + size])
            data = data[5 + size:]
        return out

    def heard(self):
        """The port of a listener, and the hello and the proof of a rank."""
        for source, target in self.flows:
            frames = [m for m in self.messages((source, target))
                      if m[:4] == b"wgrp"]
            kinds = [parse(m)["kind"] for m in frames]
            if kinds[:2] == [HELLO, PROOF]:
                return target, frames[0], frames[1]
        raise Failed("no hello was heard")


class Impostor:
    """Speaks with what was heard, and with the job's secret."""

    def __init__(self, call, eavesdropper, secret):
        self.call = call  # opens a stream at a port
        self.key = key_of(secret, b"transport")
        self.port, self.hello, self.proof = eavesdropper.heard()
        self.slowest = 0.0

    def speak(self, hello, prove):
        """The answer after the proof; nothing where there is none."""
        began = time.monotonic()
        call = self.call(self.port)
        with call.socket:
            call.send(hello)
            challenge = parse(call.receive())
            if challenge["kind"] != CHALLENGE:
                raise Failed(f"no challenge: {challenge}")
            call.send(prove(challenge))
            answer = call.receive()
        self.slowest = max(self.slowest, time.monotonic() - began)
        return parse(answer) if answer else None

    def dropped(self, hello, prove):
        answer = self.speak(hello, prove)
        if answer is not None:
            raise Failed(f"not dropped: {answer}")

    def replayed_hello(self):
        """The hello and the proof that were heard."""
        self.dropped(self.hello, lambda challenge: self.proof)

    def made_up_proof(self):
        frame = parse(self.proof)
        frame["proof"] = os.urandom(32)
        self.dropped(self.hello, lambda challenge: encode(frame))

    def refused(self, text, **changes):
        hello = parse(self.hello)
        hello.update(changes, nonce=os.urandom(32))
        first = encode(hello)

        def prove(challenge):
            said = first + encode(dict(challenge, proof=b""))
            proof = hmac.new(self.key, b"weft connector\0" + said,
                             hashlib.sha256).digest()
            return encode(dict(parse(self.proof), proof=proof))
        answer = self.speak(first, prove)
        if answer is None or answer["kind"] != REFUSE:
            raise Failed(f"{changes}: not refused: {answer}")
        if text not in answer["why"].decode():
            raise Failed(f"{changes}: refused with {answer['why']}")

    def wrong_plan(self):
        self.refused("plan", plan=parse(self.hello)["plan"] ^ 1)

    def stale_incarnation(self):
        self.refused("incarnation")

    def other_job(self):
        self.refused("job", job=b"another")

    def other_start(self):
        self.refused("epoch", epoch=parse(self.hello)["epoch"] + 1)

    def visits(self):
        return [self.replayed_hello, self.made_up_proof, self.wrong_plan,
                self.stale_incarnation, self.other_job, self.other_start]
