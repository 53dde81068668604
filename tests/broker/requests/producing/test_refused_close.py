"""Tests of legacy.refused.close: a refused produce of 0.7 ends its connection, as Kafka 0.7.2 did."""

from __future__ import annotations

from typing import Any

from logd.protocol.requests.legacy_requests import Fetch, MultiProduce, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from tests.broker.doubles import BrokerTestCase, Peer
from tests.log.entries import plain, wrapped

ONE, TWO = plain(b"one"), plain(b"two")
BAD = ONE[:-1] + b"E"


class ClosingTests(BrokerTestCase):
    """The setting is on."""

    options = {"legacy_refused_close": True}  # noqa: RUF012  # each class has its own

    def closed(self, *requests: Any) -> Peer:
        """A connection that was closed for what it sent."""
        peer = self.connect()
        peer.send(*requests)
        self.settle()
        self.assertTrue(peer.lost)
        self.assertEqual(len(self.events.warnings("legacy.refused.close = true")), 1)
        return peer

    def test_closes(self) -> None:
        """What stands before the refused set is stored and answered, what comes after it is not."""
        self.create("t")
        fetch = Fetch("t", 0, 0, 100)
        peer = self.closed(Produce("t", 0, ONE), fetch, Produce("t", 0, BAD), Produce("t", 0, TWO), fetch)
        self.assertEqual(peer.answers(), [FetchResponse(0)])
        self.assertEqual(self.content("t"), ONE)
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidMessage": 1})

    def test_every_reason(self) -> None:
        """A wrong partition, a name that is not allowed and a wrapper of the wrong codec close it as well."""
        self.create("t")
        for refused in (Produce("t", 7, ONE), Produce("no good", 0, ONE), Produce("t", 0, wrapped(b"one", 1))):
            self.events.events.clear()
            self.closed(refused)

    def test_multi_produce(self) -> None:
        """Of several sets in one request those before the refused one are stored."""
        self.create("t")
        self.closed(MultiProduce((Produce("t", 0, ONE), Produce("t", 0, BAD), Produce("t", 0, TWO))))
        self.assertEqual(self.content("t"), ONE)

    def test_topic_that_cannot_be_made(self) -> None:
        """A set whose topic cannot be created is refused, too."""
        self.files.errors["rename"] = [OSError(28, "No space left on device")]
        self.closed(Produce("new", 0, ONE))

    def test_full_disk(self) -> None:
        """So is a set that the disk does not take."""
        self.create("t")
        self.files.room = 0
        self.closed(Produce("t", 0, ONE))
        self.files.room = None

    def test_large_set(self) -> None:
        """A set that is checked in slices closes it when the check is over."""
        self.create("t")
        self.closed(Produce("t", 0, plain(bytes(999_000)) * 2 + BAD), Produce("t", 0, ONE))
        self.assertEqual(self.content("t"), b"")

    def test_ours_is_answered(self) -> None:
        """A produce of ours has its answer, and its connection stays open."""
        self.create("t")
        peer = self.connect()
        self.assertEqual(self.produce(peer, "t", BAD).error, 2)
        self.assertFalse(peer.lost)


class OpenTests(BrokerTestCase):
    """The setting is off, as it is by default."""

    def test_stays_open(self) -> None:
        """What comes after the refused set is stored."""
        self.create("t")
        peer = self.connect()
        peer.send(Produce("t", 0, BAD), Produce("t", 0, wrapped(b"one", 2)), Produce("t", 0, TWO))
        self.settle()
        self.assertFalse(peer.lost)
        self.assertEqual(self.content("t"), TWO)
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidMessage": 2})
