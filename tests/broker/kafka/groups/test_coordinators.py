"""Several brokers over one tree: one of them coordinates a group, and no commit is lost when that changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.kafka.groups.coordinator import GroupCoordinator, GroupRefused
from logd.broker.kafka.groups.members import JoinAnswer
from logd.config.kafka import KafkaSettings
from logd.coord import paths
from logd.coord.kafka_groups.claim import CoordinatedElsewhere, NativeMembers
from logd.coord.kafka_groups.commit_operations import Committed, PositionNodes, changes, chunks
from logd.coord.kafka_groups.positions import KafkaPositions
from logd.coord.records import Check, Create, Delete, GetChildren, Multi, Request, SetData
from logd.coord.registries.topics import encode_entry
from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import TreeHost
from logd.testing.inprocess.client import InProcessCoordination
from logd.topic import TopicEntry, TopicPartition
from tests.broker.kafka.groups.states import ASKED

SESSION = 6.0
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@contextmanager
def never_lost(call: Callable[[], None]) -> Iterator[None]:
    """The connection of a request, which is not lost."""
    yield


@define(eq=False)
class SingleMember:
    """The only member of a group, at one coordinator."""

    broker: GroupCoordinator
    answer: JoinAnswer = field(factory=JoinAnswer)

    @property
    def me(self) -> tuple[str, None, int]:
        """The member's id, name and generation."""
        return self.answer.member_id, None, self.answer.generation


class CoordinatorsTestCase(SynchronousTestCase):
    """Two brokers, and the tree, on one clock."""

    settings: Any = KafkaSettings()

    def setUp(self) -> None:
        """Host the tree, with a topic of two partitions."""
        self.clock = Clock()
        self.host = TreeHost(Tree(), NoJournal(), self.clock, lambda count: b"p" * count)
        self.host.start()
        self.outsider = self.tree_client()
        self.topic()
        self.trees = [self.tree_client() for _ in range(2)]
        self.brokers = [
            GroupCoordinator(
                tree, self.clock, number, self.settings, iter(f"{number}-{n}" for n in range(1000)).__next__
            )
            for number, tree in enumerate(self.trees)
        ]

    def topic(self) -> None:
        """Make the topic."""
        entry = TopicEntry("uuid", {0: (0,), 1: (0,)})
        self.get(self.outsider.create(paths.topic("t"), encode_entry(entry), makepath=True))

    def tree_client(self) -> InProcessCoordination:
        """Return a client of the tree with a session."""
        client = InProcessCoordination(self.host, self.clock, SESSION, 2.0)
        self.get(client.connect())
        return client

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / 0.05)):
            self.clock.advance(0.05)

    def get(self, waiting: Any) -> Any:
        """Return the result of a Deferred or a coroutine, letting time pass."""
        doing = waiting if isinstance(waiting, Deferred) else Deferred.fromCoroutine(waiting)
        for _ in range(400):
            if doing.called:
                break
            self.clock.advance(0.05)
        return self.successResultOf(doing)

    def refusal(self, waiting: Any) -> int:
        """Return the code with which a request is refused."""
        doing = Deferred.fromCoroutine(waiting)
        outcome: list[Any] = []
        doing.addBoth(outcome.append)
        for _ in range(400):
            if outcome:
                break
            self.clock.advance(0.05)
        refused: GroupRefused = outcome[0].value
        self.assertIsInstance(refused, GroupRefused)
        return refused.code

    def join(self, broker: int = 0, name: str = "g") -> SingleMember:
        """Return a group's only member, with its assignment."""
        member = SingleMember(self.brokers[broker])
        member.answer = self.get(member.broker.join(name, ASKED, never_lost))
        self.assertEqual(member.answer.error, 0)
        self.get(member.broker.sync(name, *member.me, {}, never_lost))
        return member

    def commit(self, member: SingleMember, position: int, text: str = "") -> Deferred[int]:
        """Begin to commit a position of partition 0."""
        commits = {T0: Committed(position, text)}
        return Deferred.fromCoroutine(member.broker.commit("g", commits, *member.me))

    def stored(self, where: TopicPartition = T0) -> bytes | None:
        """Return the position in the tree."""
        path = paths.group_offset("g", *where)
        return None if self.get(self.outsider.exists(path)) is None else self.get(self.outsider.get(path))[0]

    def cut(self, broker: int) -> None:
        """Cut a broker off from the tree."""
        self.trees[broker].link.reachable = False
        self.trees[broker].link.cut()

    def mend(self, broker: int) -> None:
        """Let a broker reach the tree again."""
        self.trees[broker].link.reachable = True


class CoordinatorsTests(CoordinatorsTestCase):
    """What each of two brokers answers."""

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


class LostCoordinatorTests(CoordinatorsTestCase):
    """Brokers that lose the tree, or end."""

    def test_a_broker_stops(self) -> None:
        """Requests that wait are told so, and the next broker can claim the group at once."""
        joining = Deferred.fromCoroutine(self.brokers[0].join("g", ASKED, never_lost))
        self.run_for(0.2)
        self.assertNoResult(joining)
        self.brokers[0].stop()
        self.assertEqual(self.get(joining).error, 16)
        self.run_for(0.1)
        self.join(1)
        self.assertEqual(self.refusal(self.brokers[0].find("g")), 15)

    def test_a_session_ends(self) -> None:
        """All groups are given up; the members join anew, there or elsewhere."""
        member = self.join(0)
        self.cut(0)
        self.run_for(4.5)
        self.assertEqual(self.refusal(member.broker.member_of("g")), 15)  # others may coordinate soon
        self.run_for(3.0)
        self.assertIsNone(self.get(self.brokers[1].find("g")))
        self.join(1)
        self.mend(0)
        self.run_for(1.0)
        self.assertEqual(self.refusal(member.broker.member_of("g")), 16)
        self.assertEqual(len(member.broker.groups), 0)

    def test_the_tree_is_away_for_a_moment(self) -> None:
        """The session lives on, and so does the group."""
        member = self.join(0)
        self.cut(0)
        self.run_for(2.0)
        self.mend(0)
        self.run_for(0.5)
        group = self.get(member.broker.member_of("g"))
        self.assertEqual(group.heartbeat(*member.me), 0)
        self.assertEqual(self.get(self.commit(member, 5)), 0)

    def test_a_commit_of_a_former_coordinator(self) -> None:
        """It fails, however late the broker learns that another one has claimed the group."""
        member = self.join(0)
        self.assertEqual(self.get(self.commit(member, 5)), 0)
        self.get(self.outsider.delete("/consumers/g/coordinator"))  # as when the session had ended
        late = self.join(1)
        self.assertEqual(self.get(self.commit(late, 50)), 0)
        self.assertEqual(self.get(self.commit(member, 6)), 16)
        self.assertEqual(self.stored(), b"50")
        self.assertEqual(len(member.broker.groups), 0)
        self.assertEqual(self.get(self.commit(late, 51)), 0)

    def test_a_claim_that_is_gone(self) -> None:
        """Also before another broker has claimed the group: native consumers may have joined."""
        member = self.join(0)
        self.get(self.outsider.delete("/consumers/g/coordinator"))
        self.assertEqual(self.get(self.commit(member, 6)), 16)
        self.assertIsNone(self.stored())

    def test_a_commit_behind_the_next_generation(self) -> None:
        """It is refused, since members of that generation may have read the position before."""
        first = self.join(0)
        group = self.get(first.broker.member_of("g"))
        self.get(self.commit(first, 4))
        joining = [Deferred.fromCoroutine(first.broker.join("g", ASKED, never_lost))]
        self.trees[0].link.delay = lambda: 0.5
        joining.append(
            Deferred.fromCoroutine(first.broker.join("g", evolve(ASKED, member_id=first.answer.member_id), never_lost))
        )
        self.run_for(0.2)
        self.assertEqual(group.generation, 1)
        committing = self.commit(first, 5)
        self.run_for(4.0)
        self.assertEqual([self.successResultOf(each).generation for each in joining], [2, 2])
        self.assertEqual(self.successResultOf(committing), 22)
        self.assertEqual(self.stored(), b"4")

    def test_a_lost_answer_to_the_writing_of_a_generation(self) -> None:
        """The number is in the tree, and the generation begins."""
        execute, link = self.host.execute, self.trees[0].link

        def cut(attachment: Any, request: Request, answered: Any) -> None:
            execute(attachment, request, answered)
            if isinstance(request, Multi) and isinstance(request.operations[0], Check):
                self.host.execute = execute  # type: ignore[method-assign]
                link.cut()

        self.host.execute = cut  # type: ignore[method-assign]
        self.join(0)
        self.assertEqual(self.get(self.outsider.get("/consumers/g/generation"))[0], b"1")

    def test_a_claim_that_cannot_be_given_back(self) -> None:
        """It is given back when the tree answers again: native consumers need not wait for the session's end."""
        member = self.join(0)
        group = self.get(member.broker.member_of("g"))
        self.cut(0)
        group.leave(member.answer.member_id, None)
        self.run_for(3.0)
        self.mend(0)
        self.run_for(0.5)
        self.assertIsNone(self.get(self.outsider.exists("/consumers/g/coordinator")))

    def test_a_generation_of_a_former_coordinator(self) -> None:
        """It does not begin: its members are told to look for the coordinator."""
        member = self.join(0)
        self.get(self.outsider.delete("/consumers/g/coordinator"))
        self.join(1)
        asked = evolve(ASKED, member_id=member.answer.member_id)
        self.assertEqual(self.get(member.broker.join("g", asked, never_lost)).error, 16)
        self.assertEqual(self.get(self.outsider.get("/consumers/g/generation"))[0], b"2")

    def test_lost_answers(self) -> None:
        """Whatever answer of the tree is lost, a group goes on and its acknowledged commits are there."""
        for lost in range(40):
            self.setUp()
            try:
                self.lose_answer(lost)
            except BaseException as error:
                error.add_note(f"the connection is cut behind write {lost}")
                raise

    def lose_answer(self, number: int) -> None:
        """Join, commit and leave, with the connection cut behind one request to the tree."""
        link = self.trees[0].link
        sent = [0]
        execute = self.host.execute

        def count(attachment: Any, request: Request, answered: Any) -> None:
            execute(attachment, request, answered)
            if isinstance(request, Create | Delete | SetData | Check | Multi):
                sent[0] += 1
                if sent[0] == number:
                    self.clock.callLater(0, link.cut)

        self.host.execute = count  # type: ignore[method-assign]
        member = SingleMember(self.brokers[0])
        position = 0
        for _ in range(8):
            joining = Deferred.fromCoroutine(member.broker.join("g", ASKED, never_lost))
            outcome: list[Any] = []
            joining.addBoth(outcome.append)
            self.run_for(3.0)
            self.assertTrue(outcome, "a request to join is not answered")
            if not isinstance(outcome[0], JoinAnswer) or outcome[0].error:
                continue
            member.answer = outcome[0]
            self.get(member.broker.sync("g", *member.me, {}, never_lost))
            acknowledged = []
            for _ in range(3):
                position += 1
                committing = self.commit(member, position, "text" if position % 2 else "")
                errors: list[Any] = []
                committing.addBoth(errors.append)
                self.run_for(3.0)
                self.assertTrue(errors, "a commit is not answered")
                if errors == [0]:
                    acknowledged.append(position)
            if acknowledged:
                self.assertIn(int(self.stored() or b"-1"), range(acknowledged[-1], position + 1))
            self.get(member.broker.member_of("g")).leave(member.answer.member_id, None)
            self.get(member.broker.released("g"))
        self.run_for(3.0)
        self.assertIsNone(self.get(self.outsider.exists("/consumers/g/coordinator")))
        self.assertGreater(sent[0], 40)


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
