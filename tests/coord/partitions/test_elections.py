"""Tests of elections: examples, and random histories in which nobody may be elected who lacks what was visible."""

from __future__ import annotations

from random import Random

from attrs import define, evolve, field
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.elections import (
    elect,
    elect_unclean,
    handed_over,
    initial_state,
    lost_with_the_tree,
    named,
    prefer,
    reassigned,
    renounced,
    with_in_sync,
    without_leader,
)
from logd.coord.partition_state import PartitionState
from logd.leadership import NO_LEADER

LIVE = {1: "a", 2: "b", 3: "c"}
#: Random histories, and steps of each.
HISTORIES, STEPS = 300, 150


def state_of(leader: int, in_sync: tuple[int, ...], last: tuple[int, ...] = ()) -> PartitionState:
    """Return a state in epoch 4 whose brokers have the instances of LIVE."""
    return PartitionState(leader, 4, in_sync, last, {broker: LIVE[broker] for broker in (*in_sync, *last)})


class ElectionTests(SynchronousTestCase):
    """The choice of leaders by the lists of a state."""

    def test_the_first_in_sync_replica_that_lives_leads(self) -> None:
        """In the order of the replicas; the dead leader stays in sync, as it cannot be known to lack anything."""
        found = elect(state_of(1, (1, 2, 3)), (1, 3, 2), {2: "b", 3: "c"}, 1)
        assert found is not None
        self.assertEqual((found.leader, found.leader_epoch, found.in_sync), (3, 5, (1, 2, 3)))

    def test_another_disk_is_another_replica(self) -> None:
        """A leader whose disk was replaced leads no more, and is not in sync."""
        found = elect(state_of(1, (1, 2)), (1, 2), {1: "new", 2: "b"}, 1)
        assert found is not None
        self.assertEqual((found.leader, found.in_sync, dict(found.instances)), (2, (2,), {2: "b"}))

    def test_the_last_members_may_lead(self) -> None:
        """They have everything visible; without them nobody leads, and the lists stay as they are."""
        state = state_of(1, (1,), (3,))
        found = elect(state, (1, 2, 3), {2: "b", 3: "c"}, 2)
        assert found is not None
        self.assertEqual((found.leader, found.in_sync, found.last), (3, (3,), (1,)))
        none = elect(state, (1, 2, 3), {2: "b"}, 2)
        assert none is not None
        self.assertEqual((none.leader, none.in_sync, none.last), (NO_LEADER, (1,), (3,)))
        self.assertIsNone(elect(none, (1, 2, 3), {2: "b"}, 2))

    def test_a_last_member_that_begins_again_counts_no_more(self) -> None:
        """Not where nobody leads: it may have what nobody else has. A member that is in sync is the leader's affair."""
        found = renounced(state_of(1, (1,), (2, 3)), 3)
        assert found is not None
        self.assertEqual((found.leader, found.leader_epoch, found.in_sync, found.last), (1, 4, (1,), (2,)))
        self.assertEqual(dict(found.instances), {1: "a", 2: "b"})
        for state in (state_of(NO_LEADER, (1,), (3,)), state_of(1, (1, 3), (2,)), state_of(1, (1, 2))):
            self.assertIsNone(renounced(state, 3))

    def test_a_leader_that_gives_up_may_lead_again_if_its_successors_are_lost(self) -> None:
        """While they live, they come first; a log that has lost something is not remembered."""
        given = without_leader(state_of(1, (1, 2)), (2,), remembered=True)
        self.assertEqual((given.leader, given.leader_epoch, given.in_sync, given.last), (NO_LEADER, 5, (2,), (1,)))
        led = elect(given, (1, 2), LIVE, 1)
        assert led is not None
        self.assertEqual((led.leader, led.last), (2, (1,)))  # it may have died, and be registered still
        found = elect(given, (1, 2), {1: "a", 2: "new"}, 1)
        assert found is not None
        self.assertEqual((found.leader, found.in_sync), (1, (1,)))
        given = without_leader(state_of(1, (1, 2)), (2,), remembered=False)
        self.assertEqual((given.in_sync, given.last, dict(given.instances)), ((2,), (), {2: "b"}))

    def test_a_leader_gives_up_to_a_last_member_if_no_in_sync_replica_lives(self) -> None:
        """It has everything visible, too."""
        given = without_leader(state_of(1, (1, 2), (3,)), (3,), remembered=True)
        self.assertEqual((given.in_sync, given.last), ((3,), (1, 2)))

    def test_a_draining_leader_makes_way_for_any_in_sync_replica(self) -> None:
        """Also where the preferred leader is not in sync; a leader that is not draining waits for the preferred one."""
        self.assertEqual(prefer(state_of(1, (1, 3)), (1, 2, 3), LIVE, {1}).leader, 3)  # type: ignore[union-attr]
        self.assertIsNone(prefer(state_of(3, (1, 3)), (1, 2, 3), LIVE, {1}))
        self.assertEqual(prefer(state_of(3, (1, 3)), (1, 2, 3), LIVE).leader, 1)  # type: ignore[union-attr]
        self.assertIsNone(prefer(state_of(1, (1, 3)), (1, 2, 3), LIVE, {1, 2, 3}))

    def test_a_successor_is_named_until_there_is_another_leader(self) -> None:
        """However that comes; and while it is in sync itself."""
        state = named(state_of(1, (1, 2, 3)), 2)
        self.assertEqual(PartitionState.decode(state.encode()), state)
        self.assertNotIn(b"successor", named(state, NO_LEADER).encode())
        after = [
            handed_over(state, 2),
            elect(state, (1, 2, 3), {2: "b"}, 1),
            without_leader(state, [3], True),
            elect(state, (1, 2, 3), {1: "a", 2: "new", 3: "c"}, 1),
            with_in_sync(state, (1, 3), {}, 1),
            reassigned(state, (1, 2, 3), (1, 3), LIVE)[1],  # type: ignore[index]
        ]
        self.assertEqual([each.successor for each in after if each is not None], [NO_LEADER] * 6)
        self.assertEqual(with_in_sync(state, (1, 2), {}, 1).successor, 2)

    def test_only_a_person_elects_a_replica_that_may_lack_messages(self) -> None:
        """So too where the tree was lost, and nobody is known to be in sync."""
        state = lost_with_the_tree(0.0)
        self.assertEqual(PartitionState.decode(state.encode()), state)
        self.assertIsNone(elect(state, (1, 2), LIVE, 1))
        found = elect_unclean(state, (1, 2), {2: "b"})
        assert found is not None
        self.assertEqual((found.leader, found.in_sync, found.unclean_epoch), (2, (2,), 1))
        self.assertEqual(PartitionState.decode(found.encode()), found)

    def test_the_state_remembers_an_unclean_election(self) -> None:
        """A former member that was away has to learn that what it showed was given up."""
        found = elect_unclean(lost_with_the_tree(0.0), (1, 2), {2: "b"})
        assert found is not None
        led = elect(evolve(found, in_sync=(1, 2), instances=LIVE), (1, 2), {1: "a"}, 1)
        assert led is not None
        self.assertEqual((led.leader, led.leader_epoch, led.unclean_epoch), (1, 2, 1))

    def test_epochs_after_a_lost_tree_are_behind_those_of_the_former_one(self) -> None:
        """Whatever the clock says, there are many left."""
        for now, epoch in ((-60.0, 0), (0.0, 0), (1.7e9, 28_333_333), (1e300, 1 << 30)):
            state = lost_with_the_tree(now)
            found = elect_unclean(PartitionState.decode(state.encode()), (1, 2), {2: "b"})
            assert found is not None
            self.assertEqual((state.leader, state.leader_epoch), (NO_LEADER, epoch))
            self.assertEqual((found.leader_epoch, found.unclean_epoch), (epoch + 1, epoch + 1))

    def test_an_unclean_election_after_a_lost_tree_is_of_the_epoch_that_the_log_allows(self) -> None:
        """The tree begins at epoch 0, and other members may have led up to a later one."""
        found = elect_unclean(lost_with_the_tree(0.0), (1, 2), {2: "b"})
        assert found is not None
        for least in (found.leader_epoch + 1, found.leader_epoch + 7):  # the log has entries of the epoch before
            begun = handed_over(found, 2, least)
            self.assertEqual((begun.leader_epoch, begun.unclean_epoch), (least, least))
        led = handed_over(found, 2)
        self.assertEqual((led.leader_epoch, led.unclean_epoch), (found.leader_epoch + 1, found.leader_epoch))
        self.assertEqual(handed_over(begun, 2, least + 2).unclean_epoch, least + 2)
        self.assertEqual(handed_over(led, 2, least).unclean_epoch, found.leader_epoch)
        self.assertEqual(handed_over(state_of(1, (1, 2)), 2, 8).unclean_epoch, 0)


class ReassignmentTests(SynchronousTestCase):
    """The steps from one list of replicas to another."""

    def test_replicas_are_added_then_caught_up_then_left_out(self) -> None:
        """The leader moves with the last step."""
        step = reassigned(state_of(1, (1,)), (1,), (2, 3), LIVE)
        assert step is not None
        self.assertEqual((step[0], step[1].in_sync), ((1, 2, 3), (1,)))
        self.assertIsNone(reassigned(state_of(1, (1, 2)), (1, 2, 3), (2, 3), LIVE))
        step = reassigned(state_of(1, (1, 2, 3)), (1, 2, 3), (2, 3), LIVE)
        assert step is not None
        replicas, state = step
        self.assertEqual((replicas, state.leader, state.leader_epoch, state.in_sync), ((2, 3), 2, 5, (2, 3)))

    def test_an_added_replica_begins_outside_of_the_in_sync_set(self) -> None:
        """Its log was removed when it was left out, whatever the state says."""
        step = reassigned(state_of(1, (1, 3), (2,)), (1,), (1, 2, 3), LIVE)
        assert step is not None
        self.assertEqual((step[1].in_sync, step[1].last, dict(step[1].instances)), ((1,), (), {1: "a"}))

    def test_it_waits_for_live_replicas_and_while_last_members_are_remembered(self) -> None:
        """A replica that is dead, has another disk or is only remembered is not enough."""
        for live in ({1: "a", 2: "b"}, {**LIVE, 3: "new"}):
            self.assertIsNone(reassigned(state_of(1, (1, 2, 3)), (1, 2, 3), (2, 3), live))
        self.assertIsNone(reassigned(state_of(1, (1, 2), (3,)), (1, 2, 3), (1, 2), LIVE))


@define(eq=False)
class Model:
    """One partition: the log of each disk, and what was shown of it."""

    random: Random
    replicas: tuple[int, ...] = (1, 2, 3)
    least: int = 2
    serial: int = 0
    #: The instance of each live broker, and of each broker's disk.
    live: dict[int, str] = field(factory=dict)
    disks: dict[int, str] = field(factory=dict)
    #: The entries of each disk, by instance.
    logs: dict[str, list[int]] = field(factory=dict)
    shown: list[int] = field(factory=list)
    state: PartitionState = field(init=False)

    def __attrs_post_init__(self) -> None:
        for broker in (1, 2, 3, 4):
            self.new_disk(broker)
        state = initial_state(self.replicas, self.live)
        assert state is not None
        self.state = state

    def new_disk(self, broker: int) -> None:
        """Give a broker an empty disk, and start it. The old one keeps what it has."""
        self.serial += 1
        self.live[broker] = self.disks[broker] = f"{broker}-{self.serial}"
        self.logs[self.disks[broker]] = []

    def log(self, broker: int) -> list[int]:
        """Return the log of the disk that the state names, or of the broker's own."""
        return self.logs[self.state.instances.get(broker, self.disks[broker])]

    @property
    def leads(self) -> bool:
        """True if the leader lives."""
        state = self.state
        return state.leader != NO_LEADER and state.leads(state.leader, self.live.get(state.leader, ""))

    def follow(self, broker: int) -> None:
        """Copy something of the leader's log, after truncating to it."""
        own, leading = self.logs[self.disks[broker]], self.log(self.state.leader)
        del own[_same(own, leading) :]
        own += leading[len(own) :][: self.random.randrange(4)]

    def show(self) -> None:
        """Move the visible end as a leader does: what a follower has of an earlier epoch alone does not count."""
        state = self.state
        if not state.last and len(state.in_sync) >= self.least:
            leading = self.log(state.leader)
            end = min(_same(self.log(broker), leading) for broker in state.in_sync)
            if end > len(self.shown):
                self.shown = leading[:end]

    def change_in_sync(self) -> None:
        """Let the leader take one out, or one in that has everything visible."""
        state, broker = self.state, self.random.choice(self.replicas)
        if broker == state.leader:
            return
        if broker in state.in_sync:
            wanted = [each for each in state.in_sync if each != broker]
        elif broker in self.live and len(self.logs[self.disks[broker]]) >= max(len(self.shown), 1):
            self.follow(broker)
            own = self.logs[self.disks[broker]]
            if own[: len(self.shown)] != self.shown or len(own) < len(self.log(state.leader)):
                return
            wanted = [*state.in_sync, broker]
        else:
            return
        self.state = with_in_sync(state, wanted, {**state.instances, broker: self.disks[broker]}, self.least)

    def give_up(self) -> None:
        """Let the leader give up, whose log cannot be served now."""
        state = self.state
        able = state.live_among({*state.in_sync, *state.last} - {state.leader}, self.live)
        if able:
            self.state = without_leader(state, able, self.random.random() < 0.5)

    def step(self) -> None:
        """Do something at random."""
        random, broker = self.random, self.random.choice((1, 2, 3, 4))
        choice = random.randrange(13)
        if choice < 2 and self.leads:
            self.serial += 1
            self.log(self.state.leader).append(self.serial)
        elif choice < 5 and self.leads and broker in self.live and broker in self.replicas:
            if broker != self.state.leader:
                self.follow(broker)
            self.show()
        elif choice < 6 and self.leads:
            self.change_in_sync()
        elif choice < 7:
            self.live.pop(broker, None)
        elif choice < 8:
            self.live[broker] = self.disks[broker]
        elif choice < 9 and random.random() < 0.3:
            self.new_disk(broker)
        elif choice < 10 and random.random() < 0.3:
            self.least = random.choice((1, 2, 3))
        elif choice < 11 and random.random() < 0.3:
            step = reassigned(self.state, self.replicas, random.sample((1, 2, 3, 4), 3), self.live)
            if step is not None:
                self.replicas, self.state = step
                for left in {1, 2, 3, 4}.difference(self.replicas):
                    self.logs[self.disks[left]] = []
        elif choice < 12 and self.leads and random.random() < 0.5:
            self.give_up()
        else:
            changed = elect(self.state, self.replicas, self.live, random.choice((1, self.least)))
            if changed is None:
                changed = prefer(self.state, self.replicas, self.live)
            if changed is not None:
                self.state = evolve(changed, controller_epoch=1)


def _same(log: list[int], other: list[int]) -> int:
    """Return the number of entries with which both logs begin."""
    pairs = zip(log, other, strict=False)
    return next((at for at, (one, two) in enumerate(pairs) if one != two), min(len(log), len(other)))


class HistoryTests(SynchronousTestCase):
    """Deaths, new disks, changed settings and reassignments in any order."""

    def test_no_leader_lacks_what_was_visible(self) -> None:
        """Neither does any member of the two lists."""
        shown = elected = 0
        for seed in range(HISTORIES):
            model = Model(Random(seed))
            for _ in range(STEPS):
                epoch = model.state.leader_epoch
                model.step()
                state = model.state
                PartitionState.decode(state.encode())
                elected += state.leader_epoch != epoch
                for broker in (*state.in_sync, *state.last):
                    self.assertEqual(model.log(broker)[: len(model.shown)], model.shown, (seed, broker, state))
            shown += len(model.shown)
        self.assertGreater((shown, elected), (HISTORIES, HISTORIES))
