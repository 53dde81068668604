"""Tests of logs of a replicated topic whose replicas are on other brokers from now on."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import globalLogPublisher

from logd.broker.replication.leader import LeaderRole
from logd.coord import paths
from logd.coord.partition_state import PartitionState
from logd.coord.records import SetData, Stat
from logd.coord.registries.topics import creation_of_states, decode_entry, encode_entry
from logd.leadership import NO_LEADER
from tests.broker.replication.test_replicas import ReplicaTestCase
from tests.broker.rig import Events


class LeftLogTestCase(ReplicaTestCase):
    """A broker that is to store partition 0 no more, and partition 1 from now on."""

    def setUp(self) -> None:
        """Choose a follower, and keep what is logged from now on."""
        super().setUp()
        self.send(b"before")
        self.left = self.followers[-1]
        self.events = Events()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)

    def stop_controllers(self) -> None:
        """Take away what would take the broker out of the state."""
        for broker in self.cluster.brokers:
            assert broker.broker is not None
            broker.broker.controller.stop()

    def state(self) -> PartitionState:
        """Return the state of partition 0."""
        server = self.cluster.tree.server
        assert server is not None
        return PartitionState.decode(bytes(server.tree.nodes[paths.partition_state("t", 0)].data))

    def move(self, state: PartitionState) -> None:
        """Take the broker out of the replicas of partition 0, with this state; add a partition that is on it alone."""
        tree, me = self.leader.coordination, self.left.settings.id
        assert tree is not None and me is not None
        entry = decode_entry("t", self.cluster.wait(tree.get(paths.topic("t")))[0])
        others = tuple(broker for broker in entry.partitions[0] if broker != me)
        new = evolve(entry, partitions={0: others, 1: (me,)})
        instance = self.state().instances[me]
        added = creation_of_states("t", entry.uuid, {1: PartitionState(me, 0, (me,), (), {me: instance})}, first=False)
        changes = [SetData(paths.topic("t"), encode_entry(new)), SetData(paths.partition_state("t", 0), state.encode())]
        self.cluster.wait(tree.multi([*changes, *added]))

    def stores(self, number: int) -> bool:
        """Return whether the broker that was left out stores a partition."""
        assert self.left.store is not None
        return self.left.store.log("t", number) is not None

    def leads(self, number: int) -> bool:
        """Return whether it leads a partition."""
        assert self.left.broker is not None
        return self.left.broker.replication.leader("t", number) is not None

    def without_it(self) -> PartitionState:
        """Return the state that counts on the other brokers alone."""
        state, me = self.state(), self.left.settings.id
        kept = tuple(broker for broker in state.in_sync if broker != me)
        return evolve(state, in_sync=kept, instances={broker: state.instances[broker] for broker in kept})


class LeftLogTests(LeftLogTestCase):
    """Its log, by the state of partition 0."""

    def test_a_state_that_does_not_count_on_it(self) -> None:
        """The log is removed."""
        self.move(self.without_it())
        self.cluster.advance(6.0)
        self.assertEqual((self.stores(0), self.leads(1)), (False, True))

    def test_a_state_that_counts_on_it_for_a_while(self) -> None:
        """The log stays until it does not, and is looked at again each few seconds; the new partition does not wait."""
        self.stop_controllers()
        self.move(self.state())
        self.cluster.advance(0.5)
        self.assertEqual((self.stores(0), self.leads(1)), (True, True))
        tree, read = self.left.coordination, list[str]()
        assert tree is not None
        get = tree.get

        def counting(path: str, timeout: float | None = None) -> Deferred[tuple[bytes, Stat]]:
            read.append(path)
            return get(path, timeout)

        tree.get = counting  # type: ignore[method-assign]
        self.cluster.advance(8.0)  # the leader has taken it out of the in-sync set, as it does not follow
        self.assertEqual((self.stores(0), self.leads(1)), (False, True))
        self.assertLess(len(read), 5, read)
        self.assertEqual(self.events.warnings("topic t does not agree"), [])

    def test_a_state_without_a_leader(self) -> None:
        """The log is removed once another broker leads."""
        self.stop_controllers()
        self.move(evolve(self.without_it(), leader=NO_LEADER))
        self.cluster.advance(1.0)
        self.assertEqual((self.stores(0), self.leads(1)), (True, True))
        assert self.left.broker is not None
        altered = self.cluster.wait(self.left.broker.administration.alter("t", settings={"retention.ms": "86400000"}))
        self.assertEqual(altered.settings, {"retention.ms": 86400000})  # nothing of that waits for a leader
        tree = next(each for each in self.cluster.brokers if each is not self.left).coordination
        assert tree is not None
        state = self.state()
        led = evolve(state, leader=state.in_sync[0], leader_epoch=state.leader_epoch + 1)
        self.cluster.wait(tree.set(paths.partition_state("t", 0), led.encode()))
        self.cluster.advance(10.0)
        self.assertFalse(self.stores(0))

    def test_a_broker_that_is_to_store_it_again_while_the_state_is_read(self) -> None:
        """Its leader counts on what it still has by then."""
        tree, other, store = self.left.coordination, self.leader.coordination, self.left.store
        assert tree is not None and other is not None and store is not None
        path, entry = paths.topic("t"), self.cluster.wait(other.get(paths.topic("t")))[0]
        get, held, state = tree.get, list[Callable[[], None]](), self.state()

        def late(path: str, timeout: float | None = None) -> Deferred[tuple[bytes, Stat]]:
            answer = get(path, timeout)
            if path != paths.partition_state("t", 0) or held:
                return answer
            waiting: Deferred[tuple[bytes, Stat]] = Deferred()
            answer.addCallback(lambda found: held.append(lambda: waiting.callback(found)))
            return waiting

        log = store.log("t", 0)
        tree.get = late  # type: ignore[method-assign]
        self.stop_controllers()
        self.move(self.without_it())
        self.cluster.advance(0.5)
        changes = [SetData(path, entry), SetData(paths.partition_state("t", 0), state.encode())]
        self.cluster.wait(other.multi(changes))
        self.cluster.advance(0.5)
        held[0]()
        self.cluster.advance(10.0)
        self.assertTrue(store.log("t", 0) is log)
        self.assertEqual(len(self.contents()), 1)

    def test_a_reassignment_is_no_trouble(self) -> None:
        """A leader counts on a replica that was left out until it knows of that: it is no trouble for a moment."""
        self.cluster.wait(self.admin.create("moved", 4))
        for first, second in ((0, 1), (1, 2), (2, 0)):
            wanted = {number: (first, second) if number % 2 else (second, first) for number in range(4)}
            self.cluster.wait(self.admin.reassign("moved", wanted))
            self.cluster.advance(15.0)
        self.assertEqual(
            [each.replicas for each in self.cluster.wait(self.admin.describe("moved")).partitions], [*wanted.values()]
        )
        self.assertEqual(self.events.warnings("does not agree"), [])


class ManyLeftTests(LeftLogTestCase):
    """A broker that is left by many partitions at once."""

    def test_their_states_are_read_together(self) -> None:
        """One after the other, with the topic's lock held, they would take as many round trips to the tree."""
        count, me = 60, self.left.settings.id
        tree, other = self.left.coordination, self.leader.coordination
        server, store = self.cluster.tree.server, self.left.store
        assert me is not None and tree is not None and other is not None and server is not None and store is not None
        self.cluster.wait(self.admin.create("many", count, replicas=3))
        self.cluster.advance(3.0)
        self.stop_controllers()
        rounds, under_way, get = [0], [0], tree.get

        def counting(path: str, timeout: float | None = None) -> Deferred[tuple[bytes, Stat]]:
            def answered(result: tuple[bytes, Stat]) -> tuple[bytes, Stat]:
                under_way[0] -= 1
                return result

            rounds[0] += not under_way[0]
            under_way[0] += 1
            return get(path, timeout).addBoth(answered)

        tree.get = counting  # type: ignore[method-assign]
        entry = decode_entry("many", bytes(server.tree.nodes[paths.topic("many")].data))
        others = tuple(broker.settings.id or 0 for broker in self.cluster.brokers if broker is not self.left)
        changes = [
            SetData(paths.topic("many"), encode_entry(evolve(entry, partitions=dict.fromkeys(range(count), others))))
        ]
        for number in range(count):
            path = paths.partition_state("many", number)
            state = PartitionState.decode(bytes(server.tree.nodes[path].data))
            instances = {broker: state.instances[broker] for broker in others}
            led = evolve(state, leader=others[0], leader_epoch=state.leader_epoch + 1)
            changes.append(SetData(path, evolve(led, in_sync=others, instances=instances).encode()))
        self.cluster.wait(other.multi(changes))
        self.cluster.advance(10.0)
        self.assertEqual(store.logs_of("many"), [])
        self.assertLess(rounds[0], 10)


class ReturningTests(LeftLogTestCase):
    """A replica that is left out and is to store the partition again. Its leader does not hear from it meanwhile."""

    def leave_and_return(self) -> None:
        """Let the broker remove its log, and begin another one, which stays empty: nothing comes from the leader."""
        me = self.left.settings.id
        assert me is not None
        (topic,) = self.cluster.wait(self.admin.metadata(["t"])).topics
        others = tuple(broker for broker in topic.partitions[0].replicas if broker != me)
        self.cluster.network.block(self.leader.host, self.left.host)
        self.cluster.wait(self.admin.reassign("t", {0: others}))
        self.cluster.advance(3.0)
        self.assertFalse(self.stores(0))
        self.cluster.wait(self.admin.reassign("t", {0: (*others, me)}))
        self.cluster.advance(3.0)
        self.assertTrue(self.stores(0))
        self.assertEqual((set(self.state().in_sync), len(self.contents())), ({*others}, 2))

    def test_the_removed_log_does_not_count_for_the_one_that_begins_in_its_place(self) -> None:
        """The leader remembers what the former one had."""
        self.leave_and_return()
        self.cluster.network.heal()
        self.cluster.advance(15.0)  # until then a connection is being made
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))

    def test_the_replica_is_followed_on_the_connection_that_others_have_kept(self) -> None:
        """Another partition is followed on it all the time."""
        self.cluster.wait(self.admin.create("others", 3, replicas=3))
        self.cluster.advance(1.0)
        self.leave_and_return()
        self.cluster.network.heal()
        self.cluster.advance(2.0)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))

    def test_a_replica_that_never_noticed_is_asked_what_it_has(self) -> None:
        """It goes on to follow: the leader refuses it once, so that it names the partition again."""
        me, leader = self.left.settings.id, self.leader.coordination
        assert leader is not None
        role = self.logs()[self.leader.host].replica
        assert isinstance(role, LeaderRole)
        self.stop_controllers()
        self.cluster.wait(leader.set(paths.partition_state("t", 0), self.without_it().encode()))
        self.cluster.advance(0.01)
        self.assertFalse(me in role.followers)
        self.cluster.advance(2.0)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))


class LastingTests(LeftLogTestCase):
    """A state that goes on to count on the broker: too few others are in sync, so it remembers the broker."""

    least = 3

    def test_trouble_that_lasts_is_logged_once(self) -> None:
        """The controller would end it within a moment, but there is none."""
        self.stop_controllers()
        me = self.left.settings.id
        assert me is not None
        self.move(evolve(self.without_it(), last=(me,), instances=self.state().instances))
        self.cluster.advance(6.0)
        self.assertEqual(self.events.warnings("does not agree"), [])
        self.cluster.advance(60.0)
        ((warning),) = self.events.warnings("does not agree")
        self.assertIn("t-0 still counts on the replica on this broker", warning)
        self.assertTrue(self.stores(0))
