"""Tests of the signal: the function, and the program over its socket."""
import contextlib
import io
import itertools
import json
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

import requests_per_second as rps

PROGRAM = str(Path(__file__).with_name("requests_per_second.py"))
HELLO = b'{"parameters":{"cluster":"c","pool":"p"},"cluster":"c","pool":"p"}'
BODY = b'{"metrics":{"requests_per_second":[[1,9],[2,250]]},"timestamp":3}'
RESOURCES = {"cpus": 1.5, "mem": 768}
SECONDS = 20  # until a test gives up
serial = itertools.count()


def body(*values: float, metric: str = rps.METRIC) -> dict[str, Any]:
    points = [[float(time), value] for time, value in enumerate(values)]
    return {"metrics": {metric: points}, "timestamp": 100.0}


class Admitted(unittest.TestCase):
    def test_only_known_users(self) -> None:
        own, other = socket.socketpair()
        self.addCleanup(own.close)
        self.addCleanup(other.close)
        self.assertTrue(rps.admitted(own))
        stranger = mock.Mock(**{"getsockopt.return_value": struct.pack("iIi", 1, 4711, 4711)})
        self.assertFalse(rps.admitted(stranger))
        with mock.patch.dict(os.environ, WEIR_SIGNAL_PEER="4711"):
            self.assertTrue(rps.admitted(stranger))


class Decide(unittest.TestCase):
    def test_last_value_counts(self) -> None:
        for values, parameters, cpus, mem in [
            ((900, 250), {}, 1.5, 768),
            ((100,), {}, 1, 512),
            ((0,), {}, 0, 0),
            ((-5,), {}, 0, 0),
            ((100,), {"headroom": 1}, 0.5, 256),
            ((900, 250), {"headroom": None}, 1.5, 768),
            ((100,), {"headroom": 1, "requests_per_instance": 30}, 2, 1024),
            ((100,), {"cpus_per_instance": 2, "mem_per_instance": 10}, 4, 20),
        ]:
            with self.subTest(values=values, parameters=parameters):
                response = rps.decide(parameters, body(*values))
                self.assertEqual(response["Resources"], {"cpus": cpus, "mem": mem})
                self.assertIn("instances", response["Explanation"])
                self.assertNotIn("Verdict", response)

    def test_no_points_no_opinion(self) -> None:
        for given in (body(), body(5, metric="other"), {"metrics": {}, "timestamp": 1.0}):
            response = rps.decide({}, given)
            self.assertEqual(response["Verdict"], "no_opinion")
            self.assertEqual(response["Resources"], {})
            self.assertIn(rps.METRIC, response["Explanation"])

    def test_bad_parameters(self) -> None:
        for name in rps.DEFAULTS:
            for value in ("1", True, [], {}, -1.0, 0.0):
                with self.subTest(name=name, value=value), self.assertRaises(ValueError):
                    rps.decide({name: value}, body(1))

    def test_overflow_is_refused(self) -> None:
        for parameters in ({"headroom": 1e300}, {"cpus_per_instance": 1e300}):
            data = json.dumps(body(1e300)).encode()
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(rps.answer(parameters, data), rps.REFUSAL)


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
        self.assertEqual(sock.recv(1), rps.ACK)
        return self.finish(sock, data)

    def finish(self, sock: socket.socket, data: bytes = BODY) -> Any:
        sock.sendall(data)
        reply = sock.recv(4096)
        if reply == rps.REFUSAL:
            return None
        self.assertEqual(reply[:1], rps.ACK)
        return json.loads(reply[1:])["Resources"]

    def test_many_evaluations_on_one_connection(self) -> None:
        sock = self.connect()
        for _ in range(3):
            self.assertEqual(self.evaluate(sock), RESOURCES)

    def test_hello_and_length_in_one_packet(self) -> None:
        sock = self.connect(HELLO + struct.pack(">I", len(BODY)))
        self.assertEqual(sock.recv(1), rps.ACK)
        self.assertEqual(self.finish(sock), RESOURCES)

    def test_hello_and_length_in_single_bytes(self) -> None:
        hello = '{"parameters":{"x":["}\\"é{\\\\"],"headroom":2.4}}'.encode()
        sock = self.connect(b"")
        for byte in hello + struct.pack(">I", len(BODY)):
            sock.sendall(bytes([byte]))
        self.assertEqual(sock.recv(1), rps.ACK)
        self.assertEqual(self.finish(sock), {"cpus": 3, "mem": 1536})

    def test_split_body(self) -> None:
        sock = self.connect(HELLO + struct.pack(">I", len(BODY)))
        self.assertEqual(sock.recv(1), rps.ACK)
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
        for length in (rps.MAX_BODY + 1, 0xFFFFFFFF):
            sock = self.connect(HELLO + struct.pack(">I", length))
            self.assertEqual(sock.recv(10), rps.REFUSAL)
            self.assertEqual(sock.recv(10), b"")

    def test_bad_hello_closes_the_connection(self) -> None:
        for bad in (b"[]", b"x", b"}", b'"', b'{"a":NaN}', b'{"parameters":[]}', b"{]", b"{" * rps.MAX_HELLO):
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
        self.assertEqual(begun.recv(1), rps.ACK)
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
    unittest.main()
