"""Tests of fetches by Kafka's clients from a topic that is deleted and made again under its name."""

from __future__ import annotations

from unittest import mock

from twisted.internet.defer import Deferred, succeed

from logd.deferreds.fair_turns import FairTurns
from tests.broker.kafka.fetches import FetchTestCase, behind, fetch, parts_of, values, values_in
from tests.log.entries import plain


class MadeAgainTests(FetchTestCase):
    """Clients that go on where the former log had an entry."""

    def test_a_topic_that_is_made_again(self) -> None:
        """The place of an entry in the former log is looked for anew: a message may have bytes that look like one."""
        forged = plain(b"forged")
        end = self.put(plain(b"a" * 30))[-1]
        self.assertEqual(behind(self.part(0)), end)
        self.broker.administration.delete("t")
        self.settle()
        self.create("t")
        payload = b"b" * (end - len(plain(b""))) + forged
        self.put(plain(payload))
        self.assertEqual(values(values_in(self.part(end))), [payload])

    def test_a_topic_that_is_made_again_during_the_answer(self) -> None:
        """The answer is of the former log, and so is the place behind it, however long other parts take."""
        end = self.put(plain(b"a" * 30))[-1]
        payload = b"b" * (end - len(plain(b""))) + plain(b"forged")
        peer, rests = self.kafka(), []

        def make_again(_: FairTurns) -> Deferred[None]:
            rests.append(True)
            if len(rests) == 1:
                self.broker.administration.delete("t")
                self.settle()
                self.create("t")
                self.put(plain(payload))
            return succeed(None)

        with mock.patch.object(FairTurns, "over", True), mock.patch.object(FairTurns, "rest", make_again):
            peer.send(fetch(("t", 0, 0)))
            self.settle()
        self.assertTrue(rests)
        self.assertEqual(behind(parts_of(peer.answers()[0])[0]), end)
        self.assertEqual(values(values_in(self.part(end, peer))), [payload])
