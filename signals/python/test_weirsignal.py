"""Tests of the module, and of a program over its socket: this file, without unittest."""
import itertools
import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import weirsignal

PROGRAM = str(Path(__file__).resolve())
HELLO = b'{"parameters":{"cluster":"c","pool":"p"},"cluster":"c","pool":"p","setpoint":0.7}'
BODY = b'{"metrics":{"requests_per_second":[[1,9],[2,250]]},"timestamp":3}'
RESOURCES = {"cpus": 1.5, "mem": 768}
SECONDS = 20  # until a test gives up
serial = itertools.count()
PARAMETERS = {"headroom": 1.2, "unit": 100.0}


def value(given: weirsignal.Given) -> dict[str, Any]:
    """The signal of these tests."""
    points = given.metrics.get("requests_per_second")
    if not points:
        raise weirsignal.NoOpinion("no points")
    count = math.ceil(points[-1][1] * given.parameters["headroom"] / given.parameters["unit"])
    given.explain(f"{count} for {given.app} of {given.pool}")
    return {"cpus": count * 0.5, "mem": count * 256}


class Admitted(unittest.TestCase):
    def test_only_known_users(self) -> None:
        own, other = socket.socketpair()
        self.addCleanup(own.close)
        self.addCleanup(other.close)
        self.assertTrue(weirsignal.admitted(own))
        stranger = mock.Mock(**{"getsockopt.return_value": struct.pack("iIi", 1, 4711, 4711)})
        self.assertFalse(weirsignal.admitted(stranger))
        with mock.patch.dict(os.environ, WEIR_SIGNAL_PEER="4711"):
            self.assertTrue(weirsignal.admitted(stranger))


class Parameters(unittest.TestCase):
    def test_defaults_and_null(self) -> None:
        self.assertEqual(weirsignal.chosen(PARAMETERS, {"headroom": None, "unit": 5, "cluster": "c", "pool": "p"}),
                         {"headroom": 1.2, "unit": 5})

    def test_undeclared_parameters_are_all_accepted(self) -> None:
        self.assertEqual(weirsignal.chosen(None, {"any": "x", "pool": "p"}), {"any": "x", "pool": "p"})

    def test_unknown_name_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "headrom: unknown, want one of headroom, unit"):
            weirsignal.chosen(PARAMETERS, {"headrom": 1})

    def test_type_of_the_default(self) -> None:
        declared = {"number": 1, "text": "a", "flag": True, "list": [], "any": None}
        good = {"number": 2.5, "text": "b", "flag": False, "list": [1], "any": {}}
        self.assertEqual(weirsignal.chosen(declared, good), good)
        for name, wrong in [("number", "1"), ("number", True), ("text", 1.0), ("flag", 1.0), ("list", {})]:
            with self.subTest(name=name, wrong=wrong), self.assertRaisesRegex(ValueError, name):
                weirsignal.chosen(declared, {name: wrong})


class Respond(unittest.TestCase):
    def respond(self, value: Any) -> dict[str, Any]:
        return weirsignal.respond(value, weirsignal.Given({}))

    def test_verdicts(self) -> None:
        for error, name in [(weirsignal.NoOpinion("why"), "no_opinion"), (weirsignal.Stale("why"), "stale")]:
            self.assertEqual(self.respond(mock.Mock(side_effect=error)), {"Resources": {}, "Verdict": name, "Explanation": "why"})

    def test_resources(self) -> None:
        for good in ({}, {"cpus": 0}, {"cpus": 1.5, "mem": None, "disk": 2, "gpus": 1}):
            self.assertEqual(self.respond(lambda given: good), {"Resources": good})
        for bad in (None, 4, {"cpu": 1}, {"cpus": -1}, {"cpus": math.nan}, {"cpus": math.inf}, {"cpus": True}, {"cpus": "1"}):
            with self.subTest(bad=bad), self.assertRaises(ValueError):
                self.respond(lambda given: bad)

    def test_long_explanation_is_cut(self) -> None:
        def long(given: weirsignal.Given) -> dict[str, Any]:
            given.explain("é\n" * 9999)
            return {}

        self.assertLessEqual(len(json.dumps(self.respond(long))), 1100)


class Hello(unittest.TestCase):
    def test_setpoint(self) -> None:
        seen: list[float] = []

        def value(given: weirsignal.Given) -> dict[str, Any]:
            seen.append(given.setpoint)
            return {}

        connection = weirsignal.Connection(mock.Mock(), value, None, "app")
        for hello in ({"setpoint": 0.7}, {"setpoint": None}, {}):
            self.assertTrue(connection.answer(hello, BODY).startswith(weirsignal.ACK))
        self.assertEqual(seen, [0.7, 0, 0])

    def test_launch(self) -> None:
        seen: list[float] = []

        def value(given: weirsignal.Given) -> dict[str, Any]:
            seen.append(given.launch)
            return {}

        connection = weirsignal.Connection(mock.Mock(), value, None, "app")
        for hello in ({"launch_seconds": 90.5}, {"launch_seconds": None}, {}):
            self.assertTrue(connection.answer(hello, BODY).startswith(weirsignal.ACK))
        self.assertEqual(seen, [90.5, 0, 0])
        for wrong in (-1, 1e300, "4m"):
            self.assertEqual(connection.answer({"launch_seconds": wrong}, BODY), weirsignal.REFUSAL)


class Protocol(unittest.TestCase):
    def setUp(self) -> None:
        self.process, self.address = self.start()

    def start(self) -> tuple[subprocess.Popen, str]:
        """Starts the program, and returns when it listens."""
        name = f"python-test-{os.getpid()}-{next(serial)}"
        process = subprocess.Popen([sys.executable, PROGRAM, "test", name, "app~1"], stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertIn(b"listening", process.stderr.readline())
        return process, f"\0test-{name}-app~1-socket"

    def connect(self, first: bytes = HELLO) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(sock.close)
        sock.settimeout(SECONDS)
        sock.connect(self.address)
        sock.sendall(first)
        return sock

    def evaluate(self, sock: socket.socket, data: bytes = BODY) -> Any:
        """Makes an evaluation. The program sends ACK and response in one write."""
        sock.sendall(struct.pack(">I", len(data)))
        self.assertEqual(sock.recv(1), weirsignal.ACK)
        return self.finish(sock, data)

    def finish(self, sock: socket.socket, data: bytes = BODY) -> Any:
        sock.sendall(data)
        reply = sock.recv(4096)
        if reply == weirsignal.REFUSAL:
            return None
        self.assertEqual(reply[:1], weirsignal.ACK)
        response = json.loads(reply[1:])
        self.assertIn(" for app of ", response["Explanation"])
        return response["Resources"]

    def test_many_evaluations_on_one_connection(self) -> None:
        sock = self.connect()
        for _ in range(3):
            self.assertEqual(self.evaluate(sock), RESOURCES)

    def test_hello_and_length_in_one_packet(self) -> None:
        sock = self.connect(HELLO + struct.pack(">I", len(BODY)))
        self.assertEqual(sock.recv(1), weirsignal.ACK)
        self.assertEqual(self.finish(sock), RESOURCES)

    def test_hello_and_length_in_single_bytes(self) -> None:
        hello = '{"x":["}\\"é{\\\\"],"parameters":{"headroom":2.4}}'.encode()
        sock = self.connect(b"")
        for byte in hello + struct.pack(">I", len(BODY)):
            sock.sendall(bytes([byte]))
        self.assertEqual(sock.recv(1), weirsignal.ACK)
        self.assertEqual(self.finish(sock), {"cpus": 3, "mem": 1536})

    def test_split_body(self) -> None:
        sock = self.connect(HELLO + struct.pack(">I", len(BODY)))
        self.assertEqual(sock.recv(1), weirsignal.ACK)
        for byte in BODY[:-1]:
            sock.sendall(bytes([byte]))
        self.assertEqual(self.finish(sock, BODY[-1:]), RESOURCES)

    def test_hello_may_miss_everything(self) -> None:
        for hello in (b" {}", b'{"parameters":null,"cluster":null}'):
            self.assertEqual(self.evaluate(self.connect(hello)), RESOURCES)

    def test_bad_body_is_refused_and_the_next_is_answered(self) -> None:
        def with_value(value: str) -> bytes:
            return BODY.replace(b"250", value.encode())

        sock = self.connect()
        for bad in [
            b"", b"{", b"[]", b"null", b"{}", b"\xff", b"\xc1\x00\x00\x00", BODY + b"x", b"[" * 100_000,
            b"\xef\xbb\xbf" + BODY, BODY.decode().encode("utf-16"),
            b'{"metrics":[],"timestamp":3}', b'{"metrics":{"a":null},"timestamp":3}',
            b'{"metrics":{"a":[1]},"timestamp":3}', b'{"metrics":{"a":[[1]]},"timestamp":3}',
            b'{"metrics":{}}', b'{"metrics":null,"timestamp":3}', b'{"metrics":{},"timestamp":null}', b'{"metrics":{},"timestamp":"3"}',
            b'{"metrics":{},"metrics":{},"timestamp":3}', b'{"metrics":{},"timestamp":3,"x":1e999}',
            *map(with_value, ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "9" * 5000, "01",
                              "1.", ".5", '"1"', "true", "null", "1,1"]),
        ]:
            with self.subTest(bad=bad[:80]):
                self.assertIsNone(self.evaluate(sock, bad))
        self.assertEqual(self.evaluate(sock), RESOURCES)

    def test_too_long_a_body_is_refused_at_once(self) -> None:
        for length in (weirsignal.MAX_BODY + 1, 0xFFFFFFFF):
            sock = self.connect(HELLO + struct.pack(">I", length))
            self.assertEqual(sock.recv(10), weirsignal.REFUSAL)
            self.assertEqual(sock.recv(10), b"")

    def test_bad_hello_closes_the_connection(self) -> None:
        for bad in (b"[]", b"x", b"}", b'"', b'{"a":NaN}', b'{"parameters":[]}', b"{]", b"{" * weirsignal.MAX_HELLO):
            with self.subTest(bad=bad[:80]):
                self.assertEqual(self.connect(bad).recv(1), b"")
        self.assertEqual(self.evaluate(self.connect()), RESOURCES)

    def test_bad_parameter_is_refused(self) -> None:
        sock = self.connect(b'{"parameters":{"headroom":"much"}}')
        self.assertIsNone(self.evaluate(sock))
        self.assertIsNone(self.evaluate(sock))

    def test_closing_ends_nothing_else(self) -> None:
        other = self.connect()
        self.assertEqual(self.evaluate(other), RESOURCES)
        length = struct.pack(">I", len(BODY))
        for first in (b"", HELLO[:9], HELLO, HELLO + length[:2], HELLO + length + BODY[:5]):
            self.connect(first).close()
        self.assertEqual(self.evaluate(other), RESOURCES)
        self.assertEqual(self.evaluate(self.connect()), RESOURCES)

    def test_connections_do_not_wait_for_each_other(self) -> None:
        silent, begun = self.connect(b""), self.connect(HELLO + b"\0")
        self.assertEqual(self.evaluate(self.connect()), RESOURCES)
        silent.sendall(HELLO)
        self.assertEqual(self.evaluate(silent), RESOURCES)
        begun.sendall(struct.pack(">I", len(BODY))[1:])
        self.assertEqual(begun.recv(1), weirsignal.ACK)
        self.assertEqual(self.finish(begun), RESOURCES)

    def test_sigterm(self) -> None:
        self.assertEqual(self.evaluate(self.connect()), RESOURCES)
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(SECONDS), 0)


class Arguments(unittest.TestCase):
    def test_wrong_arguments(self) -> None:
        for args in ([], ["a"], ["a", "b", "c", "d"], ["a", "b", "c" * 97]):
            done = subprocess.run([sys.executable, PROGRAM, *args], capture_output=True, timeout=SECONDS)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"usage:", done.stderr)
            self.assertEqual(done.stdout, b"")


if __name__ == "__main__":
    weirsignal.main(value, PARAMETERS)
