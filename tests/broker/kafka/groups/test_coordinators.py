"""Several brokers over one tree: one of them coordinates a group, and stores the positions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from twisted.internet.defer import Deferred

from logd.broker.kafka.groups.group import KafkaGroup
from logd.broker.kafka.groups.members import JoinAnswer
from logd.config.kafka import KafkaSettings
from logd.coord import paths
from logd.coord.kafka_groups.claim import CoordinatedElsewhere, NativeMembers
from logd.coord.kafka_groups.commit_operations import Committed, PositionNodes, changes, chunks
from logd.coord.kafka_groups.positions import KafkaPositions
from logd.coord.records import Create, GetChildren, Request, SetData
from logd.topic import TopicPartition
from tests.broker.kafka.groups.coordinators import T0, T1, CoordinatorsTestCase, never_lost
from tests.broker.kafka.groups.states import ASKED


class CoordinatorsTests(CoordinatorsTestCase):
    """The answers of each of two brokers."""

    def test_one_coordinates(self) -> None:
        """The other one names it, and refuses its members."""
        member = self.join(0)
        other = self.brokers[1]
        self.assertEqual(self.get(other.find("g")), 0)
        self.assertEqual(self.refusal(other.join("g", ASKED, never_lost)), 16)
        self.assertEqual(self.refusal(other.member_of("g")), 16)
        self.assertEqual(self.refusal(other.commit("g", {T0: Committed(5)}, *member.me)), 16)
        self.assertEqual(self.refusal(other.commit("g", {T0: Committed(5)}, "", None, -1)), 16)
        self.assertEqual(self.refusal(other.positions("g")), 16)

    def test_a_commit_while_very_many_positions_are_deleted(self) -> None:
        """It comes in between, as does the next generation: each position takes some calls of the tree."""
        member = self.join(0)
        doomed = [TopicPartition("gone", number) for number in range(100)]
        for where in doomed:
            self.get(self.outsider.create(paths.group_offset("g", *where), b"5", makepath=True))
        self.trees[0].link.delay = lambda: 0.05
        deleting = Deferred.fromCoroutine(member.broker.forget("g", doomed, self.read_nothing))
        self.run_for(0.5)
        committing = self.commit(member, 5)
        self.run_for(6.0)
        self.assertEqual(self.successResultOf(committing), 0)
        self.assertNoResult(deleting)
        self.trees[0].link.delay = lambda: 0.0
        self.get(deleting)
        self.assertEqual(self.get(self.outsider.get_children("/consumers/g/offsets/gone")), [])

    async def read_nothing(self, group: KafkaGroup) -> Collection[str]:
        """Say that the members of a group read no topic."""
        return ()

    def test_both_are_asked_at_once(self) -> None:
        """A create decides which of them coordinates; the other one says so."""
        joining = [Deferred.fromCoroutine(broker.join("g", ASKED, never_lost)) for broker in self.brokers]
        outcomes: list[Any] = []
        for each in joining:
            each.addBoth(outcomes.append)
        self.run_for(1.0)
        codes = sorted(each.error if isinstance(each, JoinAnswer) else each.value.code for each in outcomes)
        self.assertEqual(codes, [0, 16])

    def test_the_generation_goes_on_at_the_next_one(self) -> None:
        """When the group was empty in between."""
        member = self.join(0)
        self.get(member.broker.member_of("g")).leave(member.answer.member_id, None)
        self.get(member.broker.released("g"))
        self.assertIsNone(self.get(self.brokers[1].find("g")))
        self.assertEqual(self.join(1).answer.generation, 2)

    def test_a_commit_in_pieces(self) -> None:
        """So many partitions that one transaction could not hold them."""
        member = self.join()
        commits = {TopicPartition("t", n): Committed(n, "x" * 4000) for n in range(300)}
        self.assertEqual(self.get(member.broker.commit("g", commits, *member.me)), 0)
        positions = self.get(member.broker.positions("g"))
        self.assertEqual(self.get(positions.read(self.get(positions.places()))), commits)

    def test_texts_come_and_go(self) -> None:
        """A text has a node while it is not empty."""
        member = self.join()
        for text in ("a", "", "", "b", "c", ""):
            self.assertEqual(self.get(self.commit(member, 5, text)), 0)
            there = self.get(self.outsider.exists("/consumers/g/metadata/t/0")) is not None
            self.assertEqual(there, bool(text))
            found = self.get(self.get(member.broker.positions("g")).read([T0]))
            self.assertEqual(found, {T0: Committed(5, text)})

    def test_positions_that_others_delete(self) -> None:
        """They are made again; those of a deleted topic are not."""
        member = self.join()
        self.get(self.commit(member, 5, "text"))
        for path in ("metadata/t/0", "metadata/t", "offsets/t/0", "offsets/t"):
            self.get(self.outsider.delete(f"/consumers/g/{path}"))
        self.assertEqual(self.get(self.commit(member, 6, "text")), 0)
        self.assertEqual(self.stored(), b"6")
        self.get(self.outsider.delete(paths.topic("t")))
        self.assertEqual(self.refusal(member.broker.commit("g", {T0: Committed(7)}, *member.me)), 3)
        self.assertEqual(self.stored(), b"6")

    def test_a_position_that_cannot_be_read(self) -> None:
        """It is none for a reader, and a commit replaces it."""
        self.get(self.outsider.create(paths.group_offset("g", "t", 0), b"rubbish", makepath=True))
        member = self.join()
        positions = self.get(member.broker.positions("g"))
        self.assertEqual(self.get(positions.read([T0, T1])), {T0: None, T1: None})
        self.assertEqual(self.get(self.commit(member, 6)), 0)
        self.assertEqual(self.stored(), b"6")

    def test_nodes_that_hold_rubbish(self) -> None:
        """A generation begins at 0 again; a coordinator that is no broker makes this group unusable, and no other."""
        self.get(self.outsider.create("/consumers/g/generation", b"rubbish", makepath=True))
        self.assertEqual(self.join().answer.generation, 1)
        self.get(self.outsider.create("/consumers/h/coordinator", b"rubbish", makepath=True))
        self.assertEqual(self.refusal(self.brokers[0].find("h")), 15)
        self.assertEqual(self.refusal(self.brokers[0].join("h", ASKED, never_lost)), 16)

    def test_a_claim_that_an_earlier_process_has_left(self) -> None:
        """The next process of that broker replaces it, for a member and for a client that is none."""
        for name in ("g", "h"):
            self.get(self.outsider.create(paths.group_coordinator(name), b"0", ephemeral=True, makepath=True))
        self.assertEqual(self.refusal(self.brokers[1].join("g", ASKED, never_lost)), 16)
        self.join(0)
        self.assertEqual(self.get(self.brokers[0].commit("h", {T0: Committed(5)}, "", None, -1)), 0)

    def test_names_that_are_not_allowed(self) -> None:
        """They would leave their place in the tree, or make it unreadable."""
        for name in ("", "a/b", "..", "a\n", "x" * 251, "\ud7ff\ue000", "a\0"):
            self.assertEqual(self.refusal(self.brokers[0].join(name, ASKED, never_lost)), 24, name)

    def test_a_client_that_is_no_member_and_native_consumers(self) -> None:
        """It may not move their positions."""
        self.get(self.outsider.create(paths.group_consumer("g", "native"), b"{}", ephemeral=True, makepath=True))
        self.assertEqual(self.get(self.brokers[0].commit("g", {T0: Committed(5)}, "", None, -1)), 25)
        self.assertIsNone(self.stored())
        self.assertEqual(self.refusal(self.brokers[0].join("g", ASKED, never_lost)), 23)


class CommitsAloneTests(CoordinatorsTestCase):
    """Clients that are no members commit, while members may join."""

    def alone(self) -> Any:
        """Commit, as far as the tree lets it."""
        return KafkaPositions(self.trees[0], "g").store_alone({T0: Committed(5)})

    def test_a_coordinator_has_claimed_the_group_meanwhile(self) -> None:
        """The transaction itself says so."""
        self.join(1)
        storing = Deferred.fromCoroutine(self.alone())
        self.run_for(0.5)
        self.assertEqual(self.failureResultOf(storing, CoordinatedElsewhere).value.broker, 1)
        self.assertIsNone(self.stored())

    def test_a_native_consumer_joins_meanwhile(self) -> None:
        """It has changed the position's version with its claim, so its position stays."""
        offset = paths.group_offset("g", "t", 0)
        self.get(self.outsider.create(offset, b"98", makepath=True))
        execute = self.host.execute

        def join(attachment: Any, request: Request, answered: Any) -> None:
            execute(attachment, request, answered)
            if isinstance(request, GetChildren) and request.path.endswith("/ids"):
                self.host.execute = execute  # type: ignore[method-assign]
                for each in (
                    Create("/consumers/g/ids"),
                    Create("/consumers/g/ids/native", ephemeral=True),
                    SetData(offset, b"99"),
                ):
                    execute(attachment, each, lambda outcome: None)

        self.host.execute = join  # type: ignore[method-assign]
        storing = Deferred.fromCoroutine(self.alone())
        self.run_for(0.5)
        self.failureResultOf(storing, NativeMembers)
        self.assertEqual(self.stored(), b"99")

    def test_transactions_are_small_enough(self) -> None:
        """Each is below half of what ZooKeeper takes, whatever the lengths of names and texts."""
        topic = "t" * 200
        commits = {TopicPartition(topic, n): Committed(1 << 62, "\u20ac" * 1300) for n in range(1000)}
        parts = list(chunks(commits, "g" * 250))
        self.assertEqual({where: commit for part in parts for where, commit in part.items()}, commits)
        known = PositionNodes(None, False)
        for part in parts:
            operations = changes("g" * 250, part, dict.fromkeys(part, known))
            size = sum(len(each.path) + len(each.data) + 60 for each in operations if isinstance(each, Create))
            self.assertLess(size, 600_000)
        self.assertLess(len(parts), 20)


class BoundTests(CoordinatorsTestCase):
    """The number of groups has a bound."""

    settings = KafkaSettings(kafka_groups_max=2)

    def test_too_many_groups(self) -> None:
        """A third is refused until one of the others is empty."""
        self.join(name="a")
        member = self.join(name="b")
        self.assertEqual(self.refusal(self.brokers[0].join("c", ASKED, never_lost)), 15)
        self.get(member.broker.member_of("b")).leave(member.answer.member_id, None)
        self.join(name="c")
