"""Strangers at the doors of a rank that speaks TLS, for hosts_test.sh:

    tls_stranger.py HOST PORT CERTIFICATE KEY

One has the certificate of another job, one has none, one speaks no TLS. Each
has to be shown the door within a second, without an answer of HTTP/2.
"""

import socket
import ssl
import sys
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
HANDSHAKE_OR_ALERT = (b"\x15\x03", b"\x16\x03")


def visit(address, context):
    """What the rank says after the handshake; nothing where it hangs up."""
    with socket.create_connection(address, 10) as plain:
        try:
            stream = plain
            if context:
                stream = context.wrap_socket(plain)
            stream.sendall(PREFACE)
            return stream.recv(1024)
        except ssl.SSLError as error:
            print(f"  {error.reason}")
            return b""
        except ConnectionError:
            return b""


def client(certificate=None, key=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if certificate:
        context.load_cert_chain(certificate, key)
    return context


def main():
    host, port, certificate, key = sys.argv[1:]
    for name, context in (("another job's certificate",
                           client(certificate, key)),
                          ("no certificate", client()), ("no TLS", None)):
        began = time.monotonic()
        answer = visit((host, int(port)), context)
        seconds = time.monotonic() - began
        print(f"{name}: {seconds:.3f} s")
        # Who speaks no TLS may be told so in TLS.
        if answer and answer[:2] not in HANDSHAKE_OR_ALERT:
            sys.exit(f"{name}: let in, got {answer[:20]}")
        if seconds > 1:
            sys.exit(f"{name}: refused after {seconds:.2f} s")


main()
