#!/usr/bin/env python3
"""A signal in Python 3.9 without other dependencies. It scales instances with the request rate.

    instances = ceil(last value of requests_per_second * headroom / requests_per_instance)

decide is the signal. The code below it is the protocol. Copy it unchanged.
"""
import json
import math
import os
import signal
import socket
import struct
import sys
import threading
import time
from typing import Any, Optional

METRIC = "requests_per_second"
DEFAULTS = {  # each can be set in the pool file; mem in megabytes
    "headroom": 1.2,
    "requests_per_instance": 100.0,
    "cpus_per_instance": 0.5,
    "mem_per_instance": 256.0,
}
MAX_HELLO = 1 << 20  # bytes
MAX_BODY = 64 << 20  # bytes; a longer body is rejected before memory is allocated
MAX_RESPONSE = 4096  # bytes, with the ACK
MESSAGE_SECONDS = 60.0  # from the start of a message to its end
ACK, REFUSAL = b"\x01", b"\x02"


def decide(parameters: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Returns the response to a checked body, or raises ValueError or OverflowError."""
    p = {name: default if parameters.get(name) is None else parameters[name] for name, default in DEFAULTS.items()}
    for name, value in p.items():
        if type(value) not in (int, float) or value <= 0:  # a bool is not a number
            raise ValueError(f"parameter {name}: a number above 0 is needed, not {value!r:.100}")
    points = body["metrics"].get(METRIC)
    if not points:
        return {"Resources": {}, "Verdict": "no_opinion", "Explanation": f"no points of {METRIC}"}
    rate = max(points[-1][1], 0.0)
    instances = math.ceil(rate * p["headroom"] / p["requests_per_instance"])
    return {
        "Resources": {
            "cpus": instances * p["cpus_per_instance"],
            "mem": instances * p["mem_per_instance"],
        },
        "Explanation": f"{instances:g} instances: {rate:g} requests/s * {p['headroom']:g} headroom"
                       f" / {p['requests_per_instance']:g} requests/s per instance",
    }


def number(text: str) -> float:
    """Converts a JSON number to a finite float64. Python would convert 1e999 to infinity."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"not a finite number: {text:.20}")
    return value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Builds an object, and rejects a repeated key."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key occurs twice")
    return made


def parse(data: bytes) -> dict[str, Any]:
    """Decodes one JSON object. Python would accept NaN and Infinity; number rejects them."""
    value = json.loads(data.decode("utf-8"), parse_int=number, parse_float=number,
                       parse_constant=number, object_pairs_hook=unique)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def parse_body(data: bytes) -> dict[str, Any]:
    """Decodes and checks the body of an evaluation."""
    body = parse(data)
    metrics = body.get("metrics")
    if not isinstance(metrics, dict) or type(body.get("timestamp")) is not float:
        raise ValueError("metrics or timestamp is missing, or of the wrong type")
    for name, points in metrics.items():
        if not isinstance(points, list):
            raise ValueError(f"metric {name!r:.100}: not a list")
        for point in points:
            if not isinstance(point, list) or [type(n) for n in point] != [float, float]:
                raise ValueError(f"metric {name!r:.100}: a point is not [TIME, VALUE]")
    return body


def answer(parameters: dict[str, Any], data: bytes) -> bytes:
    """Returns the bytes after the first ACK: a second ACK with the response, or a refusal."""
    try:
        response = json.dumps(decide(parameters, parse_body(data)), allow_nan=False).encode()
        if len(ACK + response) > MAX_RESPONSE:
            raise ValueError("the response is too long")
        return ACK + response
    except Exception as err:  # every error becomes a refusal, so that the autoscaler does not wait
        log(f"refused: {type(err).__name__}: {err}")
        return REFUSAL


class Connection:
    """The connection of one autoscaler. EOFError means that it is closed."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.rest = b""  # received together with the hello, but after it
        self.deadline: Optional[float] = None

    def receive(self, limit: int) -> bytes:
        """Returns up to limit bytes. The wait for the start of a message has no limit."""
        if self.rest:
            data, self.rest = self.rest[:limit], self.rest[limit:]
        else:
            left = None if self.deadline is None else self.deadline - time.monotonic()
            self.sock.settimeout(left if left is None else max(left, 0.001))
            data = self.sock.recv(min(limit, 1 << 16))
        if not data:
            raise EOFError
        if self.deadline is None:
            self.deadline = time.monotonic() + MESSAGE_SECONDS
        return data

    def exactly(self, size: int) -> bytes:
        """Returns size bytes. Memory grows only with the received bytes."""
        data = bytearray()
        while len(data) < size:
            data += self.receive(size - len(data))
        return bytes(data)

    def send(self, data: bytes) -> None:
        """Sends data, in one write unless the buffer of the socket is full."""
        self.sock.settimeout(MESSAGE_SECONDS)
        self.sock.sendall(data)

    def hello(self) -> dict[str, Any]:
        """Returns the parameters. The hello ends with its last brace or bracket."""
        data = bytearray()
        depth, in_string, escaped, seen = 0, False, False, 0
        while len(data) < MAX_HELLO:
            data += self.receive(MAX_HELLO - len(data))
            for seen in range(seen, len(data)):
                byte = data[seen]
                if in_string:
                    in_string = escaped or byte != 0x22  # "
                    escaped = not escaped and byte == 0x5C  # \
                elif byte == 0x22:
                    in_string = True
                elif byte in b"{[":
                    depth += 1
                elif byte in b"}]":
                    depth -= 1
                if depth <= 0 and byte not in b" \t\r\n":  # the object has ended, or the data is not an object
                    self.rest = bytes(data[seen + 1:]) + self.rest
                    parameters = parse(bytes(data[:seen + 1])).get("parameters")
                    if parameters is None:
                        return {}
                    if not isinstance(parameters, dict):
                        raise ValueError("parameters: not an object")
                    return parameters
            seen += 1
        raise ValueError(f"the hello is longer than {MAX_HELLO} bytes")

    def serve(self) -> None:
        """Responds to evaluations in sequence, until the autoscaler closes the connection."""
        parameters = self.hello()
        if unknown := parameters.keys() - DEFAULTS.keys() - {"cluster", "pool"}:
            log(f"unknown parameters are ignored: {sorted(unknown)}")
        while True:
            self.deadline = None
            (size,) = struct.unpack(">I", self.exactly(4))
            if size > MAX_BODY:
                self.send(REFUSAL)
                return
            self.send(ACK)
            self.send(answer(parameters, self.exactly(size)))


def log(line: str) -> None:
    """Writes one line of bounded length. An error of the write does not affect a connection."""
    try:
        print(line[:300] + "\n", end="", file=sys.stderr, flush=True)
    except OSError:
        pass


def admitted(sock: socket.socket) -> bool:
    """Reports whether the other end is of this user, of root, or of the autoscaler's user."""
    _, user, _ = struct.unpack("iIi", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return str(user) in {"0", str(os.geteuid()), os.environ.get("WEIR_SIGNAL_PEER")}


def handle(sock: socket.socket) -> None:
    """Serves one connection. Its errors do not affect other connections."""
    with sock:
        try:
            Connection(sock).serve()
        except (EOFError, ConnectionError):
            pass  # closed by the autoscaler, or a probe
        except Exception as err:
            log(f"connection closed: {type(err).__name__}: {err}")


def exit_on_sigterm() -> None:
    """Waits for SIGTERM, which all threads block, and ends the process without waiting for other threads."""
    signal.sigwait({signal.SIGTERM})
    os._exit(0)


def main(args: list[str]) -> int:
    """Runs the signal until SIGTERM."""
    if len(args) != 3 or len(name := os.fsencode("-".join(args) + "-socket")) > 107:
        print("usage: requests_per_second.py NAMESPACE NAME APP\n"
              "The socket's name, NAMESPACE-NAME-APP-socket, has at most 107 bytes.", file=sys.stderr)
        return 2
    # A handler of SIGTERM would run in this thread, which may wait in accept for ever.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=exit_on_sigterm, daemon=True).start()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(b"\0" + name)
        listener.listen()
    except OSError as err:
        log(f"cannot listen: {err}")
        return 1
    log(f"listening on @{os.fsdecode(name)}")
    while True:
        try:
            sock, _ = listener.accept()
        except OSError as err:  # for example no free file descriptors: retry
            log(f"accept: {err}")
            time.sleep(0.1)
            continue
        if not admitted(sock):  # every process of the host can connect
            sock.close()
            continue
        try:
            threading.Thread(target=handle, args=(sock,), daemon=True).start()
        except RuntimeError as err:  # no more threads
            sock.close()
            log(f"connection closed: {err}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
