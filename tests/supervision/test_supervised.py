"""Tests of logd.supervision.supervised."""

from __future__ import annotations

import faulthandler
import tempfile

from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logd.supervision.notify_socket import NotifySocket
from logd.supervision.supervised import READY_SECONDS, STATUS_SECONDS, Supervised
from tests.supervision.doubles import Supervisor

WATCHDOG = 6.0


class SupervisedTests(SynchronousTestCase):
    """A server on a clock, and a supervisor at a real socket."""

    def setUp(self) -> None:
        """Listen as a supervisor does."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = f"{folder.name}/notify"
        self.supervisor = Supervisor(path)
        self.addCleanup(self.supervisor.close)
        self.clock = Clock()
        self.ready = False
        self.status = "starting"
        self.ailment: str | None = None
        if not faulthandler.is_enabled():
            self.addCleanup(faulthandler.disable)
        self.socket = NotifySocket(path)

    def start(self, watchdog: float | None = WATCHDOG) -> Supervised:
        """Start to report."""
        supervised = Supervised(
            self.clock, self.socket, watchdog, lambda: self.ready, lambda: self.status, lambda: self.ailment
        )
        supervised.start()
        return supervised

    def serve(self) -> None:
        """Serve requests from now on."""
        self.ready, self.status = True, "ok"
        self.clock.advance(READY_SECONDS)
        self.assertEqual(self.supervisor.told(), [{"READY": "1", "STATUS": "ok"}])

    def test_ready_when_requests_are_served(self) -> None:
        """Neither sooner, nor a second time."""
        self.start(None)
        self.clock.pump([READY_SECONDS] * 10)
        self.assertEqual(self.supervisor.told(), [])
        self.serve()
        self.clock.pump([STATUS_SECONDS] * 10)
        self.assertEqual(self.supervisor.told(), [])

    def test_a_status_is_told_when_it_changes(self) -> None:
        """Within seconds."""
        self.start(None)
        self.serve()
        self.status = "degraded"
        self.clock.pump([STATUS_SECONDS] * 3)
        self.assertEqual(self.supervisor.told(), [{"STATUS": "degraded"}])

    def test_signs_of_life_come_often_enough(self) -> None:
        """More than two in each time of the watchdog, and a process that hangs will show where."""
        self.start()
        self.serve()
        for _ in range(6):
            self.clock.advance(WATCHDOG / 3)
        self.assertEqual(self.supervisor.told(), [{"WATCHDOG": "1"}] * 6)
        self.assertTrue(faulthandler.is_enabled())

    def test_an_ailing_server_gives_no_sign_of_life(self) -> None:
        """The log says why, once; a server that recovers goes on."""
        self.start()
        self.serve()
        self.ailment = "2 threads have ended"
        with capturedLogs() as logs:
            self.clock.pump([WATCHDOG / 3] * 3)
        self.assertEqual(self.supervisor.told(), [])
        (entry,) = [log for log in logs if log["log_level"] == LogLevel.critical]
        self.assertEqual(entry["reason"], "2 threads have ended")
        self.ailment = None
        self.clock.advance(WATCHDOG / 3)
        self.assertEqual(self.supervisor.told(), [{"WATCHDOG": "1"}])

    def test_stopping(self) -> None:
        """Is told once, and is the last that is told."""
        supervised = self.start()
        self.serve()
        supervised.stop()
        supervised.stop()
        self.clock.advance(WATCHDOG)
        self.assertEqual(self.supervisor.told(), [{"STOPPING": "1", "STATUS": "stopping"}])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_supervisor_that_does_not_listen_yet(self) -> None:
        """READY is told again until it is taken."""
        self.ready = True
        tell, self.socket = self.socket, NotifySocket("/nowhere/notify")
        supervised = self.start(None)
        self.clock.advance(READY_SECONDS)
        supervised._socket = tell
        self.clock.advance(READY_SECONDS)
        self.assertEqual(self.supervisor.told(), [{"READY": "1", "STATUS": "starting"}])
