"""Thousands of groups and members that end together: it is done in turns of the reactor."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail

from logd.broker.kafka.groups.members import JoinAnswer
from logd.config.kafka import KafkaSettings
from logd.coord.ephemeral import ATTEMPTS
from logd.coord.errors import ConnectionLoss
from logd.coord.records import SessionState
from logd.deferreds import fair_turns
from tests.broker.kafka.groups.coordinators import CoordinatorsTestCase, never_lost
from tests.broker.kafka.groups.states import ASKED

_COUNT = 20


class ManyGroupsTests(CoordinatorsTestCase):
    """Every turn is as short as can be."""

    def turns(self, count: Callable[[], int]) -> list[int]:
        """Return what a count was in each of the next turns in which it changed, with what it is now."""
        counts = [count()]

        def look(left: int) -> None:
            if count() != counts[-1]:
                counts.append(count())
            if left:
                self.clock.callLater(0, look, left - 1)

        look(10 * _COUNT)
        self.clock.advance(0)
        return counts

    def test_a_lost_session(self) -> None:
        """All groups are given up at once; what waits is answered in turns, and no claim of the session is released."""
        broker = self.brokers[0]
        joining = [Deferred.fromCoroutine(broker.join(f"g{n}", ASKED, never_lost)) for n in range(_COUNT)]
        self.run_for(0.1)
        groups = [held.group for held in broker.groups.values()]
        self.assertEqual(len(groups), _COUNT)
        self.patch(fair_turns, "TURN_SECONDS", 0.0)
        broker._session_is(SessionState.LOST)
        self.assertEqual(len(broker.groups), 0)
        freed = self.turns(lambda: sum(not group.roster for group in groups))
        self.assertGreater(len(freed), _COUNT - 2)
        self.assertEqual([self.successResultOf(each).error for each in joining], [16] * _COUNT)
        self.assertEqual(broker.memory.used, 0)

    def test_a_generation_that_is_written_behind_the_loss(self) -> None:
        """It does not begin, also while the group has not been told."""
        broker = self.brokers[0]
        joining = [Deferred.fromCoroutine(broker.join(f"g{n}", ASKED, never_lost)) for n in range(2)]
        self.run_for(0.1)
        held = broker.groups["g1"]
        self.patch(fair_turns, "TURN_SECONDS", 0.0)
        written: list[int] = []
        began: list[int] = []
        self.patch(held.claim, "write_generation", self.write(written))
        self.patch(type(held.group), "generation_written", lambda group, generation: began.append(generation))
        broker.write_generation(held.group, 7)
        self.assertEqual((written, began), ([7], []))
        broker._session_is(SessionState.LOST)
        self.writing.callback(None)
        self.assertEqual(began, [])
        self.run_for(0.1)
        self.assertEqual([self.successResultOf(each).error for each in joining], [16, 16])

    writing: Deferred[None]

    def write(self, written: list[int]) -> Callable[[int], Coroutine[Any, Any, None]]:
        """Return what writes a generation when the test says so."""

        async def write(generation: int) -> None:
            written.append(generation)
            self.writing = Deferred()
            await self.writing

        return write

    def test_claims_that_could_not_be_given_back(self) -> None:
        """They are given back in turns when the tree answers again."""
        broker = self.brokers[0]
        members = [self.join(0, f"g{n}") for n in range(_COUNT)]
        self.cut(0)
        for number, member in enumerate(members):
            self.get(broker.member_of(f"g{number}")).leave(member.answer.member_id, None)
        self.run_for(3.0)
        self.assertEqual(len(broker._releases), _COUNT)
        self.mend(0)
        self.run_for(0.5)
        self.assertEqual([self.get(self.outsider.exists(f"/consumers/g{n}/coordinator")) for n in range(_COUNT)],
                         [None] * _COUNT)  # fmt: skip

    def test_claims_that_a_busy_tree_does_not_take_back(self) -> None:
        """One of them is tried until the tree takes it, so that it has no more to do for each of the others."""
        broker = self.brokers[0]
        members = [self.join(0, f"g{n}") for n in range(_COUNT)]
        asked = []

        def refuse(path: str, *more: Any) -> Deferred[Any]:
            asked.append(path)
            return fail(ConnectionLoss())

        refusing = self.patch(self.trees[0], "exists", refuse)
        for number, member in enumerate(members):
            self.get(broker.member_of(f"g{number}")).leave(member.answer.member_id, None)
        self.run_for(0.5)
        self.assertEqual(len(set(asked)), _COUNT)
        asked.clear()
        self.run_for(3.0)
        self.assertLessEqual(len(asked), 3 * ATTEMPTS)
        refusing.restore()
        self.run_for(1.5)
        self.assertEqual(len(broker._releases), 0)
        self.assertEqual([self.get(self.outsider.exists(f"/consumers/g{n}/coordinator")) for n in range(_COUNT)],
                         [None] * _COUNT)  # fmt: skip

    def test_members_that_are_not_heard_of(self) -> None:
        """They are removed in turns; one that is heard of before its turn comes stays."""
        broker = self.brokers[0]
        first = self.join(0)
        group = self.get(broker.member_of("g"))
        for number in range(_COUNT):
            asked = evolve(ASKED, member_id=f"m{number}")
            self.assertTrue(group.roster.add(asked, lambda _: None, 9.0))
            group.roster.members[f"m{number}"].take_join()
        self.clock.advance(8.9)
        self.assertEqual(group.heartbeat(*first.me), 0)
        self.patch(fair_turns, "TURN_SECONDS", 0.0)
        self.clock.callLater(0.1, lambda: self.clock.callLater(0, group.roster.touch, group.roster.members["m19"]))
        left: list[int] = []

        def look(times: int) -> None:
            left.append(len(group.roster))
            if times:
                self.clock.callLater(0, look, times - 1)

        self.clock.callLater(0.1, look, 3 * _COUNT)
        self.clock.advance(0.11)
        self.assertEqual(len(set(left)), _COUNT)
        self.assertEqual(set(group.roster.members), {first.answer.member_id, "m19"})


class GivenIdsTests(CoordinatorsTestCase):
    """Ids that clients were given, and have not used yet."""

    settings = KafkaSettings(kafka_groups_bytes=10_000)

    def test_their_memory(self) -> None:
        """It is bounded: a client that asks for ids, and never joins, could have the broker keep millions of them."""
        broker, asked = self.brokers[0], evolve(ASKED, in_two_steps=True)
        answers: list[JoinAnswer] = [self.get(broker.join(f"g{n}", asked, never_lost)) for n in range(15)]
        errors = [each.error for each in answers]
        self.assertEqual((errors[0], errors[-1]), (79, 81))
        self.assertLessEqual(broker.memory.used, 10_000)
        self.run_for(15.0)
        self.assertEqual((list(broker.groups), broker.memory.used), ([], 0))
