"""A real ZooKeeper as tests start, stop and kill it."""

from __future__ import annotations

import os
import signal

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.zookeeper import ZooKeeperProcess, missing


class ZooKeeperProcessTests(SynchronousTestCase):
    """Its life."""

    skip = missing() or None

    def test_statuses(self) -> None:
        """Who asks it to stop gets 0, as of every other server, and it starts again where it was."""
        server = ZooKeeperProcess(os.path.abspath(self.mktemp())).start()
        self.addCleanup(server.kill)
        self.assertEqual(server.mode(), "standalone")
        self.assertEqual(server.stop(), 0)
        server.start()
        self.assertEqual(server.kill(), -signal.SIGKILL)
        self.assertEqual(server.mode(), "")
