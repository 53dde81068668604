"""Tests of ``logd zookeeper``: its directory, and its end."""

from __future__ import annotations

import gc
import os
import stat
from struct import Struct
from threading import Event
from typing import Any
from unittest import mock

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase, TestCase

from logd.cli.cluster import zookeeper as command
from logd.cli.cluster.zookeeper import TreeOutcome, check_directory, serve
from logd.coord.server.server import CoordinationServer
from logd.errors import DataDirectoryError
from logd.log.disk.local_files import LocalFile, LocalFiles

OPTIONS = {
    "session_min": 4_000,
    "session_max": 40_000,
    "snapshot_bytes": 8 << 20,
    "nodes": 1000,
    "nodes_bytes": 1 << 20,
}
#: A ZooKeeper client's request for a session of ten seconds: length, version, last zxid, timeout, id, password.
SESSION = Struct(">iiqiqi16s").pack(44, 0, 0, 10_000, 0, 16, bytes(16))


class DirectoryTests(SynchronousTestCase):
    """``check_directory``."""

    def test_a_new_directory_is_not_for_everybody(self) -> None:
        """It has the modes of a broker's, whatever the umask says; so have its parents."""
        self.addCleanup(os.umask, os.umask(0))
        path = self.mktemp()
        check_directory(os.path.abspath(path) + "/deep")
        modes = [stat.S_IMODE(os.stat(each).st_mode) for each in (path, path + "/deep")]
        self.assertEqual(modes, [0o750, 0o750])

    def test_a_file_is_refused(self) -> None:
        """It is named."""
        path = os.path.abspath(self.mktemp())
        with open(path, "wb"):
            pass
        with self.assertRaisesRegex(DataDirectoryError, f"{path} cannot be used: "):
            check_directory(path)


class StopTests(TestCase):
    """A tree on a disk that does not answer any more."""

    def setUp(self) -> None:
        """Let syncs wait as soon as ``hung`` is set, until the test is over; keep the server, and the log silent."""
        self.hung, over = Event(), Event()
        self.addCleanup(lambda: self.servers[0].stop())  # ends once the disk answers again
        self.addCleanup(over.set)
        hung = self.hung

        class HangingFile(LocalFile):
            def sync_data(self) -> None:
                if hung.is_set():
                    over.wait()
                super().sync_data()

        files = LocalFiles()
        files.file_class = HangingFile
        self.servers: list[CoordinationServer] = []

        def server(*args: Any, **keywords: Any) -> CoordinationServer:
            self.servers.append(CoordinationServer(*args, **keywords))
            return self.servers[0]

        self.addCleanup(gc.set_threshold, *gc.get_threshold())
        for name, double in (
            ("LocalFiles", lambda: files),
            ("CoordinationServer", server),
            ("globalLogBeginner", mock.Mock()),
            ("STOP_SECONDS", 0.2),
        ):
            self.patch(command, name, double)

    async def ended(self, hangs: bool) -> TreeOutcome:
        """Serve a client that asks for a session, cancel, and return the outcome."""
        outcome, path = TreeOutcome(), os.path.abspath(self.mktemp())
        serving = Deferred.fromCoroutine(serve(reactor, path, "tcp:0:interface=127.0.0.1", False, OPTIONS, outcome))
        if hangs:
            self.hung.set()
        connection = self.servers[0].factory.buildProtocol(None)
        assert connection is not None
        connection.makeConnection(StringTransport())
        connection.dataReceived(SESSION)
        serving.cancel()
        await serving
        return outcome

    async def test_the_end_waits_for_the_disk(self) -> None:
        """All is written then."""
        self.patch(command, "STOP_SECONDS", 60.0)
        self.assertTrue((await self.ended(hangs=False)).is_closed)

    async def test_the_end_does_not_wait_for_a_disk_that_hangs(self) -> None:
        """A supervisor would have to kill the process; the exit status tells of it."""
        self.assertFalse((await self.ended(hangs=True)).is_closed)
