"""Who listens to the loopback network while a job connects its ranks, for
tests/fault/impostors.py. Between processes of one machine everything can be
read that is not sealed: hellos, proofs, addresses with their tokens.
"""

import re
import socket
import struct
import threading

IPV4, TCP, OUTGOING = 0x0800, 6, 4
KEPT = 1 << 22  # bytes of a flow: what matters comes in its beginning
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


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
            self.flows[flow], self.next[flow] = bytearray(), sequence + 1
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
        data, bytes_ = b"", bytes(self.flows[flow])
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

    def first_calls(self):
        """The port of each listener, and what a client said to it."""
        for source, target in self.flows:
            yield target, self.messages((source, target))

    def find(self, pattern):
        """All that matches, in any flow."""
        return {match.groups() for flow in self.flows.values()
                for match in re.finditer(pattern, flow)}
