"""Write a signal of Weirkeeper as one function from metrics to resources.

    import weirsignal

    def value(given):
        points = given.metrics.get("requests")
        if not points:
            raise weirsignal.NoOpinion("no requests were measured")
        busiest = max(count for _, count in points)
        given.explain(f"{busiest:g} requests a second at the busiest")
        return {"cpus": busiest / given.parameters["requests_per_cpu"]}

    if __name__ == "__main__":
        weirsignal.main(value, parameters={"requests_per_cpu": 100.0})

The program is a signal: its arguments are NAMESPACE NAME APP, and it answers requests until SIGTERM. "weir signal test"
tests it. The module needs Python 3.9 on Linux and nothing else. Install it with pip, or copy this file.
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
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

__all__ = ["Given", "NoOpinion", "Stale", "main"]

KINDS = ("cpus", "mem", "disk", "gpus")
MAX_HELLO = 1 << 20  # bytes
MAX_BODY = 64 << 20  # bytes; a longer body is rejected before memory is allocated
MAX_RESPONSE = 4096  # bytes, with the ACK
MAX_EXPLANATION = 1024  # bytes of JSON
MAX_LAUNCH = 86400  # seconds
MESSAGE_SECONDS = 60.0  # from the start of a message to its end
ACK, REFUSAL = b"\x01", b"\x02"


class NoOpinion(Exception):
    """The signal has no opinion: the pool does not change for its application. The text is the explanation."""


class Stale(Exception):
    """The data is too old for an opinion: the default signal serves the application. The text is the explanation."""


class Given:
    """The input of one decision.

    now         unix seconds of the decision; use it in place of the clock
    cluster, pool, app
    setpoint    share of its capacity that the pool should use, capacity = request / setpoint; 0: unknown
    launch      seconds in which 95 of 100 new machines of the pool join it, as it was measured; 0: unknown
    parameters  name -> value of the pool file, or else its default
    metrics     name -> list of (unix seconds, value), from the oldest to the newest. With a resolution in the pool's file,
                a point is the first second and the mean of a slot that has ended; name + "#count" has the number of its values
    """

    def __init__(self, metrics: Mapping[str, List[Tuple[int, float]]], parameters: Optional[Mapping[str, Any]] = None,
                 now: int = 0, cluster: str = "", pool: str = "", app: str = "", setpoint: float = 0.0, launch: float = 0.0) -> None:
        self.metrics, self.parameters, self.now = metrics, parameters or {}, now
        self.cluster, self.pool, self.app, self.setpoint, self.launch = cluster, pool, app, setpoint, launch
        self.explanation = ""

    def explain(self, text: str) -> None:
        """Stores the line that "weir explain" shows for this decision. The last one counts."""
        self.explanation = text


# value returns the needed resources: cpus (cores), mem and disk (megabytes), gpus. A missing kind, or None, means no
# opinion on it. Zero means that none is needed. Every exception other than NoOpinion and Stale is a failure.
Value = Callable[[Given], Mapping[str, Optional[float]]]


def main(value: Value, parameters: Optional[Mapping[str, Any]] = None) -> None:
    """Runs the signal until SIGTERM, and exits.

    parameters has every parameter with its default. A parameter of the pool file with another name, or of another
    type than its default, is refused. A default of None accepts each type. Without parameters, each name is accepted.
    """
    sys.exit(serve(value, parameters, sys.argv[1:]))


def chosen(declared: Optional[Mapping[str, Any]], given: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns the values of all parameters, or raises ValueError. null means the default."""
    made = dict(declared or {})
    for name, value in given.items():
        if declared is not None and name not in declared:
            if name in ("cluster", "pool"):  # always present
                continue
            raise ValueError(f"parameter {name:.100}: unknown, want one of {', '.join(sorted(declared)) or 'none'}")
        if value is None:
            continue
        default = made.get(name)
        if not same_type(default, value):
            raise ValueError(f"parameter {name:.100}: {value!r:.100} is not of the type of the default, {default!r:.100}")
        made[name] = value
    return made


def same_type(default: Any, value: Any) -> bool:
    """Reports whether a value may replace the default. A bool is not a number."""
    if type(default) in (int, float):
        return type(value) in (int, float)
    return default is None or type(value) is type(default)


def respond(value: Value, given: Given) -> Dict[str, Any]:
    """Returns the response of the signal, or raises its error."""
    try:
        resources = value(given)
    except NoOpinion as err:
        return verdict("no_opinion", err)
    except Stale as err:
        return verdict("stale", err)
    if not isinstance(resources, Mapping):
        raise ValueError(f"the signal returned {resources!r:.100}, want a dict of resources")
    for kind, amount in resources.items():
        if kind not in KINDS:
            raise ValueError(f"the signal returned the kind {kind!r:.100}, want one of {', '.join(KINDS)}")
        if amount is not None and (type(amount) not in (int, float) or not math.isfinite(amount) or amount < 0):
            raise ValueError(f"the signal returned {amount!r:.100} for {kind}, want a finite number of at least 0")
    response: Dict[str, Any] = {"Resources": dict(resources)}
    if given.explanation:
        response["Explanation"] = short(given.explanation)
    return response


def verdict(name: str, why: Exception) -> Dict[str, Any]:
    return {"Resources": {}, "Verdict": name, "Explanation": short(str(why))}


def short(text: str) -> str:
    """Cuts a text so that its JSON has at most MAX_EXPLANATION bytes."""
    while len(json.dumps(text)) > MAX_EXPLANATION:
        text = text[:len(text) * 3 // 4]
    return text


def number(text: str) -> float:
    """Converts a JSON number to a finite float. Python would convert 1e999 to infinity."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"not a finite number: {text:.20}")
    return value


def unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """Builds an object, and rejects a repeated key."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key occurs twice")
    return made


def parse(data: bytes) -> Dict[str, Any]:
    """Decodes one JSON object. Python would accept NaN and Infinity; number rejects them."""
    value = json.loads(data.decode("utf-8"), parse_int=number, parse_float=number,
                       parse_constant=number, object_pairs_hook=unique)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def launch_of(hello: Mapping[str, Any]) -> float:
    """Returns launch_seconds of a hello; 0: it was not sent."""
    seconds = float(hello.get("launch_seconds") or 0)
    if not 0 <= seconds <= MAX_LAUNCH:
        raise ValueError(f"launch_seconds is {seconds}, want 0 to {MAX_LAUNCH}")
    return seconds


def parse_body(data: bytes) -> Tuple[Dict[str, List[Tuple[int, float]]], int]:
    """Decodes and checks the body of an evaluation. Returns the metrics and the time."""
    body = parse(data)
    metrics = body.get("metrics")
    if not isinstance(metrics, dict) or type(body.get("timestamp")) is not float:
        raise ValueError("metrics or timestamp is missing, or of the wrong type")
    for name, points in metrics.items():
        if not isinstance(points, list):
            raise ValueError(f"metric {name!r:.100}: not a list")
        for i, point in enumerate(points):
            if not isinstance(point, list) or [type(n) for n in point] != [float, float]:
                raise ValueError(f"metric {name!r:.100}: a point is not [TIME, VALUE]")
            points[i] = (int(point[0]), point[1])
    return metrics, int(body["timestamp"])


class Connection:
    """The connection of one autoscaler. EOFError means that it is closed."""

    def __init__(self, sock: socket.socket, value: Value, declared: Optional[Mapping[str, Any]], app: str) -> None:
        self.sock, self.value, self.declared, self.app = sock, value, declared, app
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

    def hello(self) -> Dict[str, Any]:
        """Returns the hello. It ends with its last brace or bracket."""
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
                    return parse(bytes(data[:seen + 1]))
            seen += 1
        raise ValueError(f"the hello is longer than {MAX_HELLO} bytes")

    def serve(self) -> None:
        """Responds to evaluations in sequence, until the autoscaler closes the connection."""
        hello = self.hello()
        if not isinstance(hello.get("parameters"), (dict, type(None))):
            raise ValueError("parameters: not an object")
        while True:
            self.deadline = None
            (size,) = struct.unpack(">I", self.exactly(4))
            if size > MAX_BODY:
                self.send(REFUSAL)
                return
            self.send(ACK)
            self.send(self.answer(hello, self.exactly(size)))

    def answer(self, hello: Dict[str, Any], data: bytes) -> bytes:
        """Returns the bytes after the first ACK: a second ACK with the response, or a refusal."""
        try:
            parameters = hello.get("parameters") or {}
            metrics, now = parse_body(data)
            given = Given(metrics, chosen(self.declared, parameters), now, str(hello.get("cluster") or parameters.get("cluster") or ""),
                          str(hello.get("pool") or parameters.get("pool") or ""), self.app,
                          float(hello.get("setpoint") or 0), launch_of(hello))
            response = json.dumps(respond(self.value, given), allow_nan=False).encode()
            if len(ACK + response) > MAX_RESPONSE:
                raise ValueError("the response is too long")
            return ACK + response
        except Exception as err:  # every error becomes a refusal, so that the autoscaler does not wait
            log(f"refused: {type(err).__name__}: {err}")
            return REFUSAL


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


def handle(connection: Connection) -> None:
    """Serves one connection. Its errors do not affect other connections."""
    with connection.sock:
        try:
            connection.serve()
        except (EOFError, ConnectionError):
            pass  # closed by the autoscaler, or a probe
        except Exception as err:
            log(f"connection closed: {type(err).__name__}: {err}")


def exit_on_sigterm() -> None:
    """Waits for SIGTERM, which all threads block, and ends the process without waiting for other threads."""
    signal.sigwait({signal.SIGTERM})
    os._exit(0)


def serve(value: Value, declared: Optional[Mapping[str, Any]], args: List[str]) -> int:
    """Listens and serves until SIGTERM. Returns the exit code if it cannot listen."""
    if len(args) != 3 or len(name := os.fsencode("-".join(args) + "-socket")) > 107:
        print(f"usage: {os.path.basename(sys.argv[0])} NAMESPACE NAME APP\n"
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
    app = args[2].partition("~")[0]  # a second process for an app gets APP~1
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
            threading.Thread(target=handle, args=(Connection(sock, value, declared, app),), daemon=True).start()
        except RuntimeError as err:  # no more threads
            sock.close()
            log(f"connection closed: {err}")
