"""Tests of Spark's reader, sink and planner when a broker is silent: without power, stopped, or cut off."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import BrokerUnavailable, NotLeader
from logd.protocol.loops import decode_set, encode_set
from logd.protocol.message import Message
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse
from logd.protocol.requests.fetch_wait import FetchWait
from logd.protocol.requests.metadata import Metadata
from logd.spark.blocking.cluster import BlockingCluster
from logd.spark.blocking.producing import ExecutorProducer
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import RangeReader, ReadSettings
from tests.spark.doubles import FakeBroker, FakeLog, FakeStream, FakeTopic

VALUES: list[bytes | None] = [b"%04d" % number for number in range(100)]
DATA = encode_set([Message(value) for value in VALUES])
EVER = 1e9
#: Seconds until another broker leads in the place of a dead one.
SESSION = 6.0


class SilentLeaderTests(SynchronousTestCase):
    """Three brokers, of which the first leads."""

    def setUp(self) -> None:
        """Fill a log."""
        self.log = FakeLog(DATA)
        self.broker = FakeBroker({"t": FakeTopic("u", [self.log])}, hosts=("one", "two", "three"))
        self.cluster = self.broker.cluster()

    def die(self, *, successor: int = 1, until: float = EVER) -> None:
        """Let nothing come from the leader from now on, and another broker lead in its place a session later."""
        died = self.broker.now
        self.broker.silent["one"] = died + until

        def elect(request: Any) -> None:
            if self.broker.now >= died + SESSION:
                self.broker.leader = successor

        self.broker.before = elect

    def die_at_fetch(self, number: int, **how: Any) -> None:
        """Let the leader die before it answers a fetch."""

        def before(request: Any) -> None:
            if isinstance(request, FetchWait) and self.broker.count(FetchWait) == number:
                self.die(**how)

        self.broker.before = before

    def read(self) -> list[bytes | None]:
        """Read the log."""
        reader = RangeReader(self.cluster, IdRange("t", "u", 0, 0, len(DATA)), ReadSettings(fetch_bytes=200))
        return [value for rows in reader.rows() for value in rows.values]

    def test_a_reader_goes_on_at_the_next_leader(self) -> None:
        """It is blocked for some ten seconds, not for the time of a request to the dead one, and another to ask it."""
        began = self.broker.now
        self.die_at_fetch(3)
        self.assertEqual(self.read(), VALUES)
        self.assertLess(self.broker.now - began, 8.0)

    def test_machines_without_power_take_no_connections(self) -> None:
        """An attempt to connect has no answer either, and gets no more time than one."""

        def hang(host: str, port: int, timeout: float) -> FakeStream:
            if self.broker.now < self.broker.silent.get(host, 0.0):
                self.broker.now += timeout
                raise TimeoutError("timed out")
            return FakeStream(self.broker, host)

        self.cluster = BlockingCluster(self.cluster.settings, lambda: self.broker.now, dial=hang)
        self.broker.silent["two"] = EVER
        self.cluster.topic("t")
        began = self.broker.now
        self.die(successor=2)
        self.assertRaises(BrokerUnavailable, self.cluster.ask_leader, "t", 0, DescribeLog("t", 0))
        self.assertLess(self.broker.now - began, 12.0)
        began = self.broker.now
        self.cluster = BlockingCluster(self.cluster.settings, lambda: self.broker.now, dial=hang)
        self.assertEqual(self.cluster.describe("t", 0).uuid, "u")
        self.assertLess(self.broker.now - began, 6.0)

    def test_a_leader_that_is_merely_slow_is_waited_for(self) -> None:
        """Nobody else leads."""
        self.die_at_fetch(3, successor=0, until=20.0)
        self.assertEqual(self.read(), VALUES)
        self.assertEqual(self.broker.slept, [])
        self.assertLess(self.broker.count(Metadata), 15)

    def test_a_leader_without_successor_is_given_up_in_time(self) -> None:
        """The time of one request bounds the wait as before."""
        self.cluster = self.broker.cluster(retry_timeout=0.0)
        self.die_at_fetch(3, successor=0)
        began = self.broker.now
        self.assertIn("no answer to FetchWait within 30", str(self.assertRaises(BrokerUnavailable, self.read)))
        self.assertLess(self.broker.now - began, 40.0)

    def test_brokers_that_are_all_silent_are_given_up_in_time(self) -> None:
        """The client's own network is cut off: each of many brokers could be asked who leads, for some seconds."""
        self.broker.hosts = tuple(f"host{number}" for number in range(30))
        self.cluster = self.broker.cluster()
        self.cluster.topic("t")
        for host in self.broker.hosts:
            self.broker.silent[host] = EVER
        began = self.broker.now
        self.assertRaises(BrokerUnavailable, self.cluster.ask_leader, "t", 0, DescribeLog("t", 0))
        self.assertLess(self.broker.now - began, 35.0)

    def test_a_writer_sends_to_the_next_leader(self) -> None:
        """A small batch is in the dead machine's kernel, and a large one is not taken whole."""
        for size in (1, 100_000):
            self.log.data, self.broker.leader = b"", 0
            self.broker.silent.clear()
            producer = ExecutorProducer(self.cluster)
            producer.send("t", Message(b"before"), 0)
            producer.flush()
            began = self.broker.now
            self.die()
            producer.send("t", Message(bytes(size)), 0)
            producer.flush()
            self.assertLess(self.broker.now - began, 12.0)
            self.assertEqual([each.payload for each in decode_set(self.log.data).messages], [b"before", bytes(size)])

    def test_metadata_come_from_a_broker_that_answers(self) -> None:
        """The first one that was named is silent: that costs some seconds, and nothing the next time."""
        self.broker.silent["one"] = EVER
        self.broker.leader = 2
        began = self.broker.now
        self.assertEqual(self.cluster.topic("t").uuid, "u")
        self.assertLess(self.broker.now - began, 3.0)
        began = self.broker.now
        self.assertEqual(self.cluster.topic("t", fresh=True).uuid, "u")
        self.assertEqual(self.cluster.describe("t", 0).visible_end, len(DATA))
        self.assertEqual(self.broker.now, began)

    def test_metadata_of_slow_brokers_are_waited_for(self) -> None:
        """All are asked once more, each for the time of a request."""
        for host in self.broker.hosts:
            self.broker.silent[host] = self.broker.now + 20.0
        self.assertEqual(self.cluster.topic("t").uuid, "u")
        self.assertEqual(self.broker.slept, [])

    def test_a_broker_that_stands_alone_has_all_the_time(self) -> None:
        """Nobody else could be asked."""
        self.broker.hosts = ("one",)
        self.cluster = self.broker.cluster()
        self.broker.silent["one"] = self.broker.now + 20.0
        self.assertEqual(self.cluster.describe("t", 0).visible_end, len(DATA))
        self.assertEqual((self.broker.slept, self.broker.connections), ([], 1))

    def test_a_leader_that_does_not_tell_is_asked_once(self) -> None:
        """An import asks about each of its partitions, and the dead broker may lead hundreds."""
        self.assertEqual(self.cluster.leader_uuid("t", 0), "u")
        self.die(successor=0)
        began = self.broker.now
        self.assertEqual([self.cluster.leader_uuid("t", 0) for _ in range(100)], [None] * 100)
        self.assertLess(self.broker.now - began, 40.0)
        self.broker.silent.clear()
        self.assertEqual(self.cluster.describe("t", 0).uuid, "u")
        self.assertEqual(self.cluster.leader_uuid("t", 0), "u")
        self.broker.before = lambda request: (
            DescribeLogResponse(NotLeader.code) if isinstance(request, DescribeLog) else None
        )
        self.assertEqual(self.cluster.leader_uuid("t", 0), None)
