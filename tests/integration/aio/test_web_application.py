"""A web application on uvicorn and uvloop that publishes what is posted to it and streams it back."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest import skipUnless

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.python_process import start_python
from tests.integration.peers import PATIENCE

ROOT = Path(__file__).resolve().parents[3]


@skipUnless(find_spec("uvicorn") and find_spec("uvloop"), "uvicorn and uvloop are extras: logd[test]")
class WebApplicationTests(SynchronousTestCase):
    """The application of web_application.py in its own process."""

    def setUp(self) -> None:
        """Start the broker and the application."""
        self.broker = BrokerProcess(os.path.abspath(self.mktemp()))
        self.broker.start()
        self.addCleanup(self.broker.kill)
        self.application = start_python(
            [sys.executable, "-m", "tests.integration.aio.web_application", self.broker.address],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(self.end)
        assert self.application.stdout is not None
        self.port = int(self.application.stdout.readline())

    def end(self) -> None:
        """Kill the application, unless it has ended."""
        self.application.kill()
        self.application.communicate()

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection to the application, which the kernel accepts before uvicorn does."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        return connection

    def post(self, connection: http.client.HTTPConnection, body: bytes) -> tuple[int, str]:
        """Post a message; return the status and the answer."""
        connection.request("POST", "/messages", body)
        response = connection.getresponse()
        return response.status, response.read().decode()

    def test_what_is_posted_comes_back_as_a_stream(self) -> None:
        """Two readers get all messages; one goes in the midst, which takes nothing from the other."""
        posting, staying, going = self.connect(), self.connect(), self.connect()
        ids = [self.post(posting, b"message %d" % number) for number in range(100)]
        self.assertEqual([status for status, _ in ids], [200] * 100)
        self.assertEqual([int(text) for _, text in ids], sorted(int(text) for _, text in ids))
        readers = []
        for connection in (staying, going):
            connection.request("GET", "/messages")
            readers.append(connection.getresponse())
        for reader in readers:
            self.assertEqual([reader.readline() for _ in range(100)], [b"message %d\n" % n for n in range(100)])
        going.close()
        for number in range(100, 200):
            self.assertEqual(self.post(posting, b"message %d" % number)[0], 200)
        self.assertEqual([readers[0].readline() for _ in range(100)], [b"message %d\n" % n for n in range(100, 200)])
        staying.close()
        posting.close()
        self.application.send_signal(signal.SIGTERM)
        _, errors = self.application.communicate(timeout=PATIENCE)
        self.assertEqual(errors.decode(), "")
        self.assertIn(self.application.returncode, (0, -signal.SIGTERM))  # uvicorn ends by the signal it was given
