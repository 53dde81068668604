"""Tests of logd.supervision.notify_socket."""

from __future__ import annotations

import os
import tempfile

from twisted.trial.unittest import SynchronousTestCase

from logd.supervision.notify_socket import NotifySocket, notify_socket, watchdog_seconds
from tests.supervision.doubles import Supervisor


class NotifySocketTests(SynchronousTestCase):
    """Datagrams to a supervisor."""

    def supervisor(self, path: str) -> Supervisor:
        """Return a supervisor that listens at ``path``."""
        supervisor = Supervisor(path)
        self.addCleanup(supervisor.close)
        return supervisor

    def short_path(self) -> str:
        """Return a path that is short enough for a socket."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return f"{folder.name}/notify"

    def test_a_path_and_an_abstract_name(self) -> None:
        """Both kinds of address get the lines of one datagram."""
        for path in (self.short_path(), f"@logd-test-{os.getpid()}"):
            supervisor = self.supervisor(path)
            socket = notify_socket({"NOTIFY_SOCKET": path})
            assert socket is not None
            self.assertTrue(socket.tell(READY="1", STATUS="serves 3 partitions"))
            self.assertEqual(supervisor.told(), [{"READY": "1", "STATUS": "serves 3 partitions"}])

    def test_a_value_stays_on_its_line(self) -> None:
        """A status with line ends, a topic's or an error's, cannot say READY=1 or anything else."""
        path = self.short_path()
        supervisor = self.supervisor(path)
        NotifySocket(path).tell(STATUS="a\nMAINPID=1\r\0\udcff")
        self.assertEqual(supervisor.told(), [{"STATUS": "a MAINPID=1  ?"}])

    def test_a_supervisor_that_is_gone_or_full(self) -> None:
        """Is no error, and no wait: False."""
        path = self.short_path()
        socket = NotifySocket(path)
        self.assertFalse(socket.tell(READY="1"))
        self.supervisor(path)
        while socket.tell(STATUS="x" * 30_000):
            pass

    def test_addresses_that_are_none(self) -> None:
        """Without a supervisor, and with one of another kind, nothing is told."""
        for address in ("", "@", "vsock:2:1", "relative"):
            self.assertIsNone(notify_socket({"NOTIFY_SOCKET": address}))
        self.assertIsNone(notify_socket({}))

    def test_the_watchdog_is_this_processs(self) -> None:
        """A variable that was inherited from a parent, or makes no sense, is not for this process."""
        own = str(os.getpid())
        for environ, expected in (
            ({}, None),
            ({"WATCHDOG_USEC": "30000000"}, 30.0),
            ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": own}, 30.0),
            ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": own + "0"}, None),
            ({"WATCHDOG_USEC": "0"}, None),
            ({"WATCHDOG_USEC": "-1"}, None),
            ({"WATCHDOG_USEC": "soon"}, None),
            ({"WATCHDOG_USEC": "\u0663"}, None),
            ({"WATCHDOG_USEC": "1"}, 0.1),
        ):
            self.assertEqual(watchdog_seconds(environ), expected, environ)
