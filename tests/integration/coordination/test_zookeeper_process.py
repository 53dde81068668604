"""The real ZooKeeper of tests: started, stopped and killed."""

from __future__ import annotations

import os
import signal

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.zookeeper import ZooKeeperProcess, missing


class ZooKeeperProcessTests(SynchronousTestCase):
    """A ZooKeeper of one server."""

    skip = missing() or None

    def test_a_stopped_zookeeper_has_status_0_and_starts_again(self) -> None:
        """Java ends with 143 on SIGTERM, but tests expect of every server that a stop is 0 and a kill is -9."""
        server = ZooKeeperProcess(os.path.abspath(self.mktemp())).start()
        self.addCleanup(server.kill)
        self.assertEqual(server.mode(), "standalone")
        self.assertEqual(server.stop(), 0)
        server.start()
        self.assertEqual(server.kill(), -signal.SIGKILL)
        self.assertEqual(server.mode(), "")
