"""Tests of a client that hangs up while a thread reads for it."""

from __future__ import annotations

import errno

from logd.net.transfer import TURN_BYTES
from logd.protocol.requests.legacy_requests import Fetch
from logd.testing.memory.files import MemoryFile
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

SIZE = TURN_BYTES // 2
ENTRY = plain(bytes(SIZE - 9))


def check(file: MemoryFile) -> None:
    """Refuse a file that is closed, as a kernel does."""
    if file.closed:
        raise OSError(errno.EBADF, "Bad file descriptor")


class HangingUpTests(BrokerTestCase):
    """A log of which nothing in the last segment is in the page cache."""

    def test_a_file_outlives_its_lost_reader(self) -> None:
        """The thread still reads it; a file closed under it would mark sound bytes as unreadable for all clients."""
        self.create("t", 1, segment_bytes=100)
        for _ in range(3):
            self.produce(self.connect(), "t", ENTRY)
        self.patch(MemoryFile, "_check", check)
        self.patch(MemoryFile, "is_cached", lambda *_: False)
        self.patch(MemoryFile, "read_cached", lambda *_: None)
        peer = self.connect()
        peer.send(Fetch("t", 0, 0, SIZE))
        self.assertEqual(len(self.reads.works), 1)
        peer.lose()
        log = self.log_of("t")
        log._context.open_files.close()  # another 512 files were asked for meanwhile
        self.settle()
        self.assertEqual(self.events.warnings("cannot be read"), [])
        self.assertFalse(log._reads.unreadable)
        found = log.read(0, SIZE)
        assert found is not None
        self.assertEqual(found.count, SIZE)
        found.close()
