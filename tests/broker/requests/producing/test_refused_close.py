"""Tests of legacy.refused.close: a refused produce of 0.7 ends its connection, as Kafka 0.7.2 did."""

from __future__ import annotations

from typing import Any

from logd.protocol.requests.legacy_requests import Fetch, MultiProduce, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from tests.broker.rig import BrokerTestCase, Peer
from tests.log.entries import plain, wrapped

ONE, TWO = plain(b"one"), plain(b"two")
BAD = ONE[:-1] + b"E"


class ClosingTests(BrokerTestCase):
    """A broker whose setting is on."""

    options = {"legacy_refused_close": True}  # noqa: RUF012  # each class has its own

    def closed(self, *requests: Any) -> Peer:
        """Return a connection that was closed because of its requests."""
        peer = self.connect()
        peer.send(*requests)
        self.settle()
        self.assertTrue(peer.lost)
        self.assertEqual(len(self.events.warnings("legacy.refused.close = true")), 1)
        return peer

    def test_a_refusal_closes_the_connection(self) -> None:
        """Requests before it are stored and answered, those behind it are dropped."""
        self.create("t")
        fetch = Fetch("t", 0, 0, 100)
        peer = self.closed(Produce("t", 0, ONE), fetch, Produce("t", 0, BAD), Produce("t", 0, TWO), fetch)
        self.assertEqual(peer.answers(), [FetchResponse(0)])
        self.assertEqual(self.content("t"), ONE)
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidMessage": 1})

    def test_every_reason_closes_the_connection(self) -> None:
        """Wrong partition, bad name and a wrapper of the wrong codec among them."""
        self.create("t")
        for refused in (Produce("t", 7, ONE), Produce("no good", 0, ONE), Produce("t", 0, wrapped(b"one", 1))):
            self.events.events.clear()
            self.closed(refused)

    def test_sets_before_the_refused_one_are_stored(self) -> None:
        """All of them came in one request."""
        self.create("t")
        self.closed(MultiProduce((Produce("t", 0, ONE), Produce("t", 0, BAD), Produce("t", 0, TWO))))
        self.assertEqual(self.content("t"), ONE)

    def test_a_failed_creation_closes_it(self) -> None:
        """The disk takes no new topic."""
        self.files.errors["rename"] = [OSError(28, "No space left on device")]
        self.closed(Produce("new", 0, ONE))

    def test_a_full_disk_closes_it(self) -> None:
        """A sender of 0.7 has no other way to learn of it."""
        self.create("t")
        self.files.room = 0
        self.closed(Produce("t", 0, ONE))
        self.files.room = None

    def test_a_refused_large_set_closes_it(self) -> None:
        """The set is checked in slices, so the refusal comes late."""
        self.create("t")
        self.closed(Produce("t", 0, plain(bytes(999_000)) * 2 + BAD), Produce("t", 0, ONE))
        self.assertEqual(self.content("t"), b"")

    def test_a_refused_produce_ack_closes_nothing(self) -> None:
        """The answer has the error, so its sender needs no other sign."""
        self.create("t")
        peer = self.connect()
        self.assertEqual(self.produce(peer, "t", BAD).error, 2)
        self.assertFalse(peer.lost)


class OpenTests(BrokerTestCase):
    """A broker whose setting is off, as it is by default."""

    def test_a_refusal_leaves_it_open(self) -> None:
        """Sets behind the refused one are stored."""
        self.create("t")
        peer = self.connect()
        peer.send(Produce("t", 0, BAD), Produce("t", 0, wrapped(b"one", 2)), Produce("t", 0, TWO))
        self.settle()
        self.assertFalse(peer.lost)
        self.assertEqual(self.content("t"), TWO)
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidMessage": 2})
