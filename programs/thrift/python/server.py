"""The service of service.thrift on Apache Thrift's Python library, as its tutorial
has it and S4 used it: the binary protocol in plain Python over a buffered
transport, and the simple server, one thread that serves one connection after the
other.

    server.py [--address ADDRESS] --port PORT [--work MICROS]
"""

import argparse
import logging
import os
import signal
import socket
import sys
import time

from thrift.protocol import TBinaryProtocol
from thrift.server import TServer
from thrift.transport import TSocket, TTransport

from latency import Latency
from latency.ttypes import Refused

MOST_BYTES = 16 << 20  # that a request carries, either way
USAGE = "usage: server.py [--address ADDRESS] --port PORT [--work MICROS], with MICROS of CPU time for each request, 0 to 1000000"


class Handler:
    """Answers the calls."""

    def __init__(self, work_micros):
        self.work = work_micros * 1000
        self.bytes = {}

    def ping(self):
        self.burn()

    def receive(self, data):
        self.burn()

    def send(self, size):
        if not 0 <= size <= MOST_BYTES:
            raise Refused("size %d: want 0 to %d" % (size, MOST_BYTES))
        if size not in self.bytes:
            self.bytes = {size: b"x" * size}  # one: clients ask for the same again
        self.burn()
        return self.bytes[size]

    def burn(self):
        """Uses CPU time of this thread: what the kernel gives to others meanwhile
        does not count."""
        if self.work:
            until = time.thread_time_ns() + self.work
            while time.thread_time_ns() < until:
                pass


class Listener(TSocket.TServerSocket):
    """Without TCP_NODELAY an answer in several segments would wait for the client's
    acknowledgement: the library leaves it off."""

    def accept(self):
        client = super().accept()
        client.handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client


def parse(arguments):
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.error = lambda message: usage()
    parser.add_argument("--address", default="0.0.0.0")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--work", type=int, default=0)
    options = parser.parse_args(arguments)
    if not 1 <= options.port <= 65535 or not 0 <= options.work <= 1_000_000:
        usage()
    return options


def usage():
    print(USAGE, file=sys.stderr)
    sys.exit(2)


def main():
    options = parse(sys.argv[1:])
    # The first process of a container gets no signal that it does not ask for.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    logging.disable()  # a client that disappears is nothing to tell of
    server = TServer.TSimpleServer(
        Latency.Processor(Handler(options.work)),
        Listener(host=options.address, port=options.port, socket_family=socket.AF_INET),
        TTransport.TBufferedTransportFactory(),
        TBinaryProtocol.TBinaryProtocolFactory(string_length_limit=MOST_BYTES),
    )
    try:
        server.serve()
    except OSError as error:
        print("server.py: port %d: %s" % (options.port, error.strerror), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
