"""S4's client of service.thrift, in Python as the server: a closed loop over one
connection at a time, each request timed around the library's call.

    client.py --address HOST:PORT [--call ping|receive|send] [--size BYTES]
              [--connection kept|new] [--warmup SECONDS] [--duration SECONDS] [--count N]

What is asked in the warm-up is forgotten. The rest ends after --duration or --count
requests, whichever comes first; 0 is no bound, and one of them is set. With
--connection new the connecting is part of each latency.

Prints one JSON document at the end: the latencies, as sorted pairs of microseconds
and how many requests took them; the number of requests answered rightly; the others
by kind, with an example; the seconds from the end of the warm-up to the end.
Exit status: 0, also where requests failed; 2 for wrong usage.
"""

import argparse
import gc
import json
import logging
import socket
import sys
import time

from thrift.Thrift import TApplicationException
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport
from thrift.transport.TTransport import TTransportException

from latency import Latency
from latency.ttypes import Refused

MOST_BYTES = 16 << 20
TIMEOUT = 10_000  # milliseconds, of each waiting on the connection
USAGE = (
    "usage: client.py --address HOST:PORT [--call ping|receive|send] [--size 0..16777216]"
    " [--connection kept|new] [--warmup SECONDS] [--duration SECONDS] [--count N], with a duration or a count"
)


class Socket(TSocket.TSocket):
    """Without TCP_NODELAY a request in several segments would wait for the server's
    acknowledgement: the library leaves it off."""

    def _do_open(self, family, socktype):
        handle = super()._do_open(family, socktype)
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return handle


class Wrong(Exception):
    """An answer that is not the right one."""


class Client:
    """Asks one thing again and again."""

    def __init__(self, options):
        self.options = options
        self.transport = None
        self.stub = None
        data = b"x" * options.size
        self.ask = {
            "ping": lambda: self.stub.ping(),
            "receive": lambda: self.stub.receive(data),
            "send": self.send,
        }[options.call]

    def send(self):
        got = len(self.stub.send(self.options.size))
        if got != self.options.size:
            raise Wrong("%d bytes, want %d" % (got, self.options.size))

    def open(self):
        handle = Socket(*self.options.address)
        handle.setTimeout(TIMEOUT)
        transport = TTransport.TBufferedTransport(handle)
        transport.open()
        self.transport = transport
        self.stub = Latency.Client(TBinaryProtocol.TBinaryProtocol(transport, string_length_limit=MOST_BYTES))

    def close(self):
        if self.transport:
            self.transport.close()
            self.transport = None

    def request(self):
        if not self.transport:
            self.open()
        self.ask()


class Tally:
    """Counts what came of the requests, in memory that does not grow with them."""

    def __init__(self):
        self.latencies = {}
        self.requests = 0
        self.errors = {}
        self.first_error = ""

    def answered(self, nanoseconds):
        micros = (nanoseconds + 500) // 1000
        self.latencies[micros] = self.latencies.get(micros, 0) + 1
        self.requests += 1

    def failed(self, error):
        kind = kind_of(error)
        self.errors[kind] = self.errors.get(kind, 0) + 1
        if not self.first_error:
            self.first_error = str(error) or type(error).__name__

    def document(self, seconds):
        return {
            "latencies_us": sorted(self.latencies.items()),
            "requests": self.requests,
            "errors": self.errors,
            "first_error": self.first_error[:500],
            "seconds": seconds,
        }


def kind_of(error):
    """Names a failure as the other generators do."""
    if isinstance(error, (TApplicationException, Refused)):
        return "exception"
    if isinstance(error, Wrong):
        return "size"
    if isinstance(error, TTransportException):
        inner = error.inner
        if error.type == TTransportException.NOT_OPEN:
            return "connect"
        if error.type == TTransportException.TIMED_OUT or isinstance(inner, TimeoutError):
            return "timeout"
        if error.type == TTransportException.END_OF_FILE or isinstance(inner, ConnectionError):
            return "closed"
    return "protocol"


def run(options):
    client, tally = Client(options), Tally()
    now = time.perf_counter_ns
    kept = options.connection == "kept"
    pause = 0
    if kept:
        try:
            client.open()
        except TTransportException:
            pass  # the first request tries again, and tells
    warm = now() + round(options.warmup * 1e9)
    end = warm + round(options.duration * 1e9)
    asked, last = 0, warm
    while True:
        began = now()
        measured = began >= warm
        if options.duration and began >= end or options.count and asked >= options.count:
            break
        try:
            client.request()
            answered, failure, pause = now(), None, 0
        except Exception as error:  # whatever the library makes of what it reads
            answered, failure = now(), error
        if not kept or failure:
            client.close()
        if measured:
            asked += 1
            last = answered
            if failure:
                tally.failed(failure)
            else:
                tally.answered(answered - began)
        # A closed loop against a service that is gone must not spin.
        if failure and kind_of(failure) == "connect":
            pause = min(max(2 * pause, 0.001), 0.1)
            time.sleep(pause)
    client.close()
    if options.duration and not options.count:
        last = max(last, end)
    return tally.document((last - warm) / 1e9)


def parse(arguments):
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.error = lambda message: usage()
    parser.add_argument("--address", required=True)
    parser.add_argument("--call", choices=("ping", "receive", "send"), default="ping")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--connection", choices=("kept", "new"), default="kept")
    parser.add_argument("--warmup", type=float, default=0)
    parser.add_argument("--duration", type=float, default=0)
    parser.add_argument("--count", type=int, default=0)
    options = parser.parse_args(arguments)
    host, _, port = options.address.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        usage()
    options.address = (host.strip("[]"), int(port))
    # Written so that what is not a number is refused, too.
    if not (0 <= options.size <= MOST_BYTES and 0 <= options.warmup <= 1e6 and 0 <= options.duration <= 1e6 and options.count >= 0):
        usage()
    if not options.duration and not options.count:
        usage()
    return options


def usage():
    print(USAGE, file=sys.stderr)
    sys.exit(2)


def main():
    options = parse(sys.argv[1:])
    logging.disable()  # the library tells of failures a second time
    gc.collect()
    gc.freeze()  # what is there stays: no collection has to look at it
    json.dump(run(options), sys.stdout)
    print()


if __name__ == "__main__":
    main()
