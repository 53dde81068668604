"""Tests of the client's side of a fetch session: what a request names, and which answers it takes."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.backoff import Backoff
from logd.client.consumer.fetching.client_session import ClientFetchSession
from logd.client.consumer.fetching.fetch_plan import FetchEntry
from logd.client.consumer.fetching.fetch_window import Wanted
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Position
from logd.protocol.requests.fetch_session import EXACT, FetchWaitResponseV1, MovedPart, NewPart, SessionPart
from tests.client.doubles import ModelBroker, ModelConnection


class ClientSessionTests(SynchronousTestCase):
    """A session with three partitions."""

    def setUp(self) -> None:
        """Begin a session that waits for all three from position 10 on."""
        self.session = ClientFetchSession(7, ModelConnection(ModelBroker(Clock())))
        backoff = Backoff(0.1, 1.0, lambda: 0.5)
        fetches = [PartitionFetch("t", number, Position(10), ConsumerSettings()) for number in range(3)]
        self.entries = [FetchEntry(fetch, lambda fetches: None, backoff) for fetch in fetches]
        self.first = self.request(*[(entry, 10) for entry in self.entries])

    def request(self, *wants: tuple[FetchEntry, int]) -> Any:
        """Return the request that asks for partitions from exactly these positions on."""
        return self.session.request([(entry, Wanted(at, 100, True, 1)) for entry, at in wants], 0.5, 1000)

    def answer(self, epoch: int, *parts: tuple[int, int]) -> FetchWaitResponseV1:
        """Return an answer with a byte for each part, named by its number and position."""
        return FetchWaitResponseV1(
            7, epoch, tuple([SessionPart(number, 0, 0, 99, position, b"x") for number, position in parts])
        )

    def taken(self, response: FetchWaitResponseV1) -> list[tuple[int, int]]:
        """Take an answer that fits; return the partitions and positions that it answers."""
        self.assertEqual(self.session.misfit(response), "")
        return [(entry.fetch.partition, want.offset) for entry, want, _ in self.session.answered(response)]

    def test_a_partition_is_new_once_and_moves_afterwards(self) -> None:
        """Its number is known to the broker then."""
        self.assertEqual(self.first.new[2], NewPart("t", 2, 2, 0, 10, 100, EXACT))
        self.assertEqual(self.taken(self.answer(0, (1, 10))), [(1, 10)])
        again = self.request((self.entries[1], 11))
        self.assertEqual((again.epoch, again.new, again.moved), (1, (), (MovedPart(1, 11, 100, EXACT),)))
        self.assertEqual((self.session.armed, self.session.under_way), (3, 2))

    def test_an_answer_made_before_a_partition_moved_is_not_taken_for_it(self) -> None:
        """The broker answers the new position too, as it sees the move after that answer."""
        self.request((self.entries[1], 50))
        self.assertEqual(self.taken(self.answer(0, (0, 10), (1, 10))), [(0, 10)])
        self.assertEqual(self.taken(self.answer(1, (1, 50))), [(1, 50)])

    def test_a_forgotten_partition_is_not_answered(self) -> None:
        """An answer on its way brings it still; the next request says that it is forgotten, once."""
        self.assertEqual(self.session.forget(self.entries[0]), Wanted(10, 100, True, 1))
        self.assertTrue(self.session.must_send)
        self.assertEqual(self.taken(self.answer(0, (0, 10))), [])
        self.assertEqual([self.request().forgotten for _ in range(2)], [(0,), ()])
        self.assertEqual((self.session.armed, self.entries[0].session), (2, None))

    def test_an_answer_of_another_session_or_partition_does_not_fit(self) -> None:
        """A broker that mixes sessions up must not pass: its bytes would be those of other partitions."""
        for response, words in (
            (self.answer(0)._replace(session=8), "session 8"),
            (self.answer(1), "epoch 1"),
            (self.answer(-1), "epoch -1"),
            (self.answer(0, (3, 10)), "part 3 that was not asked for"),
            (self.answer(0, (1, 10), (1, 10)), "part 1 that was not asked for"),
            (self.answer(0, (1, 11)), "begins at 11 in place of 10"),
            (self.answer(0, (1, 9)), "begins at 9 in place of 10"),
        ):
            self.assertIn(words, self.session.misfit(response))
        self.taken(self.answer(0, (1, 10)))
        self.assertIn("answered before", self.session.misfit(self.answer(0, (1, 10))))

    def test_a_session_that_ends_names_what_was_not_answered(self) -> None:
        """And its partitions are in no session any more."""
        self.taken(self.answer(0, (1, 10)))
        lost = self.session.end()
        self.assertEqual([entry.fetch.partition for entry, _ in lost], [0, 2])
        self.assertEqual([entry.session for entry in self.entries], [None] * 3)
        self.assertEqual((self.session.armed, self.session.must_send), (0, False))

    def test_a_request_is_due_while_answers_are_owed_and_none_is_under_way(self) -> None:
        """Without one the broker could not send what arrives."""
        self.assertFalse(self.session.must_send)
        self.session.under_way -= 1
        self.assertTrue(self.session.must_send)

    def test_a_partition_that_another_session_asks_for_leaves_this_one(self) -> None:
        """Its leader has refused it here: the end of this session must not end the fetch of the other one."""
        self.taken(self.answer(0, (0, 10)))
        other = ClientFetchSession(8, ModelConnection(ModelBroker(Clock())))
        want = Wanted(11, 100, True, 1)
        other.request([(self.entries[0], want)], 0.5, 1000)
        self.assertEqual([entry.fetch.partition for entry, _ in self.session.end()], [1, 2])
        self.assertEqual((other.armed, self.entries[0].session, self.entries[0].armed), (1, other, want))
        self.assertEqual(other.end(), [(self.entries[0], want)])
