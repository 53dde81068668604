"""Tests of logd.testing.processes.broker: when a broker's process counts as started."""

from __future__ import annotations

import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess

#: Listens and has a handler for SIGTERM, as a process whose reactor is about to run, and serves a moment later.
_SLOW = """
import pathlib, signal, socket, sys, time
signal.signal(signal.SIGTERM, signal.default_int_handler)
port = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(0.3)
pathlib.Path(sys.argv[2]).touch()
while True:
    port.accept()[0].close()
"""


class SlowBroker(BrokerProcess):
    """A process of Python in place of a broker."""

    @property
    def command(self) -> list[str]:
        """See BrokerProcess."""
        return [sys.executable, "-c", _SLOW, str(self.port), self.data]


class StartTests(SynchronousTestCase):
    """A process that serves is told from one that only listens."""

    def test_it_has_started_when_it_serves(self) -> None:
        """A broker that is stopped before dies of SIGTERM: neither its status nor what it does at exit is right."""
        broker = SlowBroker(self.mktemp())
        self.addCleanup(broker.kill)
        broker.start()
        self.assertTrue(Path(broker.data).exists())
