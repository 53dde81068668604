"""Tests of the verification of a broker's logs in the background, on a clock."""

from __future__ import annotations

import errno
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.broker import Broker
from logd.broker.verification.verifier import FIRST_SECONDS
from logd.config import LogSettings
from logd.log.partition import PartitionLog
from logd.testing.memory.cluster import MemoryCluster
from logd.testing.memory.disk import Inode


class VerifierTestCase(SynchronousTestCase):
    """One broker, and a topic that is not replicated, with a few segments."""

    def start(self, **settings: Any) -> None:
        """Start the broker and send messages."""
        self.cluster = MemoryCluster(log=LogSettings(segment_bytes=300), **settings)
        self.cluster.wait(self.cluster.start())
        for number in range(20):
            self.cluster.wait(self.cluster.producer(acks=-1).send("t", b"message %02d" % number + b"x" * 40))
        (self.machine,) = self.cluster.brokers

    @property
    def broker(self) -> Broker:
        """The broker."""
        assert self.machine.broker is not None
        return self.machine.broker

    @property
    def log(self) -> PartitionLog:
        """The log of the only partition."""
        log = self.broker.store.log("t", 0)
        assert log is not None
        return log

    def path(self, number: int) -> str:
        """Return the file of segment ``number``."""
        return f"{self.log.folder}/{self.log.segment_list.starts[number]:020d}.log"

    def flip(self, number: int, at: int = -3) -> Inode:
        """Flip a bit of a segment; return the file."""
        inode = self.machine.files._inode(self.path(number))
        inode.data[at] ^= 4
        inode.sync()
        return inode


class VerifierTests(VerifierTestCase):
    """LogVerifier."""

    def test_damage_is_told_with_a_remedy(self) -> None:
        """Nobody else has the bytes: a person puts the file back, or lets readers pass over it."""
        self.start(verify_ms=1_000)
        inode = self.flip(1)
        self.cluster.advance(3.0)
        health = self.broker.health()
        self.assertEqual(health["status"], "degraded")
        self.assertIn("checksum mismatch", health["damaged"]["t-0"])
        self.assertIn("logd repair --broker HOST:PORT t 0", health["damaged"]["t-0"])
        inode.data[-3] ^= 4  # the file was put back
        inode.sync()
        self.cluster.advance(3.0)
        self.assertNotIn("damaged", self.broker.health())
        self.assertEqual(self.broker.healing.damaged.found, 1)

    def test_it_is_off_with_a_rate_of_0(self) -> None:
        """Then nothing is read."""
        self.start(verify_ms=1_000, verify_bytes_per_second=0)
        self.flip(1)
        self.cluster.advance(10.0)
        self.assertEqual(self.broker.healing.verifier.bytes_verified, 0)
        self.assertNotIn("damaged", self.broker.health())

    def test_the_rate_is_kept(self) -> None:
        """A pass takes as long as its bytes need, and its progress can be read."""
        self.start(verify_ms=1_000, verify_bytes_per_second=100)
        size = self.log.visible_end
        self.cluster.advance(1.0 + 0.5 * size / 100)
        verifier = self.broker.healing.verifier
        self.assertEqual(verifier.passes, 0)
        self.assertLess(verifier.bytes_verified, 0.8 * size)
        self.assertGreater(verifier.bytes_verified, 0.3 * size)
        self.assertGreater(verifier.progress, 0.3)
        self.assertLess(verifier.progress, 0.8)
        self.cluster.advance(20.0)
        self.assertGreater(verifier.passes, 0)

    def test_a_pass_does_not_begin_with_the_broker(self) -> None:
        """A start has other work for the disk."""
        self.start()
        self.cluster.advance(FIRST_SECONDS - 10)
        self.assertEqual(self.broker.healing.verifier.bytes_verified, 0)
        self.cluster.advance(20.0)
        self.assertEqual(self.broker.healing.verifier.passes, 1)
        self.cluster.advance(3600.0)
        self.assertEqual(self.broker.healing.verifier.passes, 1)

    def test_bytes_that_cannot_be_read_are_damage(self) -> None:
        """A bad sector; an error that passes by is none."""
        self.start(verify_ms=1_000)
        path = self.path(1)
        self.machine.files.errors[f"read_at {path}"] = [OSError(errno.EMFILE, "too many open files")]
        self.cluster.advance(3.0)
        self.assertNotIn("damaged", self.broker.health())
        self.machine.files.errors[f"read_at {path}"] = [OSError(errno.EIO, "input/output error")] * 1000
        self.cluster.advance(3.0)
        self.assertIn("cannot be read", self.broker.health()["damaged"]["t-0"])

    def test_a_segment_that_retention_removes_is_not_missing(self) -> None:
        """Neither while it is verified, nor once it was found to be damaged."""
        self.start(verify_ms=1_000, verify_bytes_per_second=1000)
        self.flip(0)
        self.cluster.advance(4.0)
        self.assertIn("damaged", self.broker.health())
        self.log.remove_first(2)
        self.broker.store.upkeep.look_after([self.log])
        self.cluster.advance(5.0)
        self.assertNotIn("damaged", self.broker.health())

    def test_a_deleted_topic_is_forgotten(self) -> None:
        """Its damage as well, and a check that was under way comes to nothing."""
        self.start(verify_ms=1_000)
        self.flip(1)
        self.cluster.advance(3.0)
        self.cluster.wait(self.cluster.admin().delete("t"))
        self.cluster.wait(self.cluster.producer(acks=-1).send("u", b"another"))
        self.cluster.advance(3.0)
        self.assertNotIn("damaged", self.broker.health())

    def test_a_wrong_index_is_removed(self) -> None:
        """It is made again when a reader needs it."""
        self.start(verify_ms=1_000)
        index = self.path(1).replace(".log", ".index")
        inode = self.machine.files._inode(index)
        inode.data[-1] ^= 1
        inode.sync()
        self.cluster.advance(3.0)
        self.assertFalse(self.machine.files.exists(index))
        self.assertNotIn("damaged", self.broker.health())

    def test_damage_before_the_logs_start_is_none(self) -> None:
        """Nobody reads it; the segment goes with the other messages in it."""
        self.start(verify_ms=1_000)
        (second, _, third) = [self.log.segment_list.starts[1] + at for at in (0, 0, 60)]
        outcome: list[Any] = []
        self.broker.store.delete_before(self.log, third, outcome.append)
        self.cluster.advance(0.5)
        self.assertEqual((outcome, self.log.segment_list.starts[0] == second), ([None], True))
        self.flip(0, 20)
        self.cluster.advance(3.0)
        self.assertNotIn("damaged", self.broker.health())
