"""Tests of consumers with many partitions: a step costs as much as moves, not as much as is watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.backoff import Backoff
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.end_positions import Ends
from logd.client.consumer.fetching import fetch_plan as fetchplan
from logd.client.consumer.fetching.fetch_memory import FetchMemory
from logd.client.consumer.fetching.fetch_plan import (
    GATHER_SECONDS,
    LARGE_REQUESTS,
    MOST_REQUESTS,
    MOST_WAITING,
    SMALL,
    FetchEntry,
    FetchPlan,
    longest_wait,
)
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Position
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.fetch_wait import FetchWait
from logd.protocol.requests.metadata import Metadata
from tests.client.doubles import ModelBroker, run

#: Room for more partitions than any test has.
ROOM = 10_000


class CountedConsumer:
    """A consumer of one topic with many partitions in a model broker; counts its looks and its requests."""

    def __init__(self, test: SynchronousTestCase, partitions: int, **settings: Any) -> None:
        self.looks = 0
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.logs = self.broker.add("t", partitions)
        self.got: list[Message] = []
        given: dict[str, Any] = {"reactor": self.clock, "connect": self.broker.connect, "random": lambda: 0.5}
        self.consumer = Consumer("model:6667", **given, **settings)
        (self.stream,) = self.consumer.create_message_streams("t", 1)
        wanted = PartitionFetch.wanted

        def counting(fetch: PartitionFetch, share: int) -> Any:
            self.looks += 1
            return wanted(fetch, share)

        test.patch(PartitionFetch, "wanted", counting)
        Deferred.fromCoroutine(self._read())

    async def _read(self) -> None:
        async for message in self.stream:
            self.got.append(message)

    def append(self, partition: int) -> None:
        """Append a message to a partition."""
        self.logs[partition].data += encode_set([Message(b"%d" % partition)])

    def steps(self, work: Callable[[], None]) -> tuple[int, int]:
        """Return the number of looks, and of partitions in requests, that some work costs."""
        self.looks = 0
        asked = len(self.broker.requests)
        work()
        requests = [each for each in self.broker.requests[asked:] if isinstance(each, FetchWait)]
        return self.looks, sum(len(each.parts) for each in requests)


class ScalingTests(SynchronousTestCase):
    """Equal work in topics of different sizes."""

    def busy(self, partitions: int) -> tuple[int, int]:
        """Let a single partition move thirty times, and return the cost."""
        counted = CountedConsumer(self, partitions, max_wait=600.0)
        run(counted.clock, 1.0, 0.01)

        def work() -> None:
            for _ in range(30):
                counted.append(7)
                run(counted.clock, 0.05, 0.01)

        cost = counted.steps(work)
        self.assertEqual([each.partition for each in counted.got], [7] * 30)
        self.consumer = counted.consumer
        return cost

    def test_idle_partitions_cost_next_to_nothing(self) -> None:
        """Ten times as many beside the one that moves cost a look at each of them at most once more."""
        looks, parts = self.busy(200)
        self.assertLess((looks, parts), (1000, 1000))
        looks, parts = self.busy(2000)
        self.assertLess(looks, 2 * SMALL * 6)
        self.assertLess(parts, 2 * SMALL * 6)

    def test_moving_partitions_cost_a_few_looks_each(self) -> None:
        """The cost for each does not grow with their number."""
        costs = {}
        for partitions in (200, 2000):
            counted = CountedConsumer(self, partitions, max_wait=600.0)
            for partition in range(partitions):
                counted.append(partition)
            looks, parts = counted.steps(lambda at=counted: run(at.clock, 2.0, 0.01))  # type: ignore[misc]
            self.assertEqual(len(counted.got), partitions)
            costs[partitions] = looks / partitions, parts / partitions
        self.assertLess(costs[2000][0], 1.5 * costs[200][0])
        self.assertLess(costs[2000][1], 1.5 * costs[200][1])

    def test_a_few_that_are_behind_have_large_pieces(self) -> None:
        """The partitions at the ends of their logs do not take their part of the memory away."""
        pieces = {}
        for partitions in (200, 2000):
            counted = CountedConsumer(self, partitions, max_wait=600.0, prefetch_bytes=1 << 20)
            run(counted.clock, 1.0, 0.01)
            asked = len(counted.broker.requests)
            counted.logs[3].data += encode_set([Message(bytes(1000)) for _ in range(1000)])
            run(counted.clock, 1.0, 0.01)
            self.assertEqual(len(counted.got), 1000)
            requests = [each for each in counted.broker.requests[asked:] if isinstance(each, FetchWait)]
            pieces[partitions] = max(part.max_bytes for each in requests for part in each.parts if part.partition == 3)
        self.assertGreater(pieces[200], 256 << 10)
        self.assertGreater(pieces[2000], pieces[200] // 2)

    def test_memory_is_bounded_while_all_are_behind(self) -> None:
        """However many they are, no more is held and asked for than the setting allows."""
        counted = CountedConsumer(self, 1000, prefetch_bytes=1 << 20)
        one = encode_set([Message(bytes(1000)) for _ in range(40)])
        for log in counted.logs.values():
            log.data += one
        most = 0
        while len(counted.got) < 40_000:
            run(counted.clock, 0.01, 0.001)
            most = max(most, sum(fetch.claimed for fetch in counted.stream.state._fetches.values()))
        self.assertGreater(most, 512 << 10)
        self.assertLessEqual(most, 1 << 20)

    def test_idle_partitions_share_a_few_requests(self) -> None:
        """These are asked again at a bounded rate."""
        counted = CountedConsumer(self, 3000)
        run(counted.clock, 2.0, 0.01)
        _, parts = counted.steps(lambda: run(counted.clock, 6.0, 0.01))
        self.assertLessEqual(parts, 6 * fetchplan.QUIET_RATE + 3000)
        waiting = [each for each in counted.broker.connections[0].waiting.values() if isinstance(each, FetchWait)]
        self.assertLessEqual(len(waiting), LARGE_REQUESTS + 1)

    def test_a_lost_connection_costs_few_metadata_requests(self) -> None:
        """Each of a thousand partitions goes on, without a request of its own for metadata."""
        counted = CountedConsumer(self, 1000)
        run(counted.clock, 1.0, 0.01)
        asked = len(counted.broker.requests)
        counted.broker.lose_all()
        for partition in range(1000):
            counted.append(partition)
        run(counted.clock, 5.0, 0.01)
        self.assertEqual(len(counted.got), 1000)
        again = counted.broker.requests[asked:]
        self.assertLess(sum(isinstance(each, Metadata) for each in again), 10)
        self.assertEqual(sum(isinstance(each, DescribeLog) for each in again), 0)

    def test_queued_partitions_follow_their_leader(self) -> None:
        """Partitions in the queue of a broker that is gone are asked for at the broker that leads them now."""
        self.patch(fetchplan, "MOST_REQUESTS", 2)
        counted = CountedConsumer(self, 300)
        broker = counted.broker
        broker.silent = (FetchWait,)
        run(counted.clock, 1.0, 0.01)  # two requests of 100 partitions each are under way, and the others wait
        broker.silent = ()
        broker.leaders = {("t", partition): 8 for partition in range(300)}
        for partition in range(300):
            counted.append(partition)
        broker.lose_all()
        run(counted.clock, 10.0, 0.01)
        self.assertEqual(sorted(each.partition for each in counted.got), list(range(300)))


class FetchPlanTests(SynchronousTestCase):
    """The queue of partitions to be asked for at one broker."""

    def entries(self, count: int, idle: bool) -> list[FetchEntry]:
        """Return entries of ``count`` partitions."""
        backoff = Backoff(0.1, 1.0, lambda: 0.5)
        fetches = [PartitionFetch("t", number, Position(0), ConsumerSettings()) for number in range(count)]
        return [FetchEntry(fetch, lambda fetches: None, backoff, idle=idle) for fetch in fetches]

    def plan(self, *entries: FetchEntry) -> FetchPlan:
        """Return a plan with these entries in its queue."""
        plan = FetchPlan()
        for entry in entries:
            plan.add(entry)
        return plan

    def test_few_partitions_are_asked_for_together(self) -> None:
        """All that want something go in one request, at once."""
        idle, moving = self.entries(60, True), self.entries(40, False)
        plan = self.plan(*idle, *moving)
        self.assertEqual(plan.take(0.0, 100, ROOM), [[*moving, *idle]])
        plan = self.plan(*idle)
        self.assertEqual(plan.take(0.0, 100, ROOM), [idle])

    def test_moving_partitions_are_asked_for_apart_from_idle_ones(self) -> None:
        """Of many, those that moved go at once, and the idle ones at a bounded rate."""
        idle, moving = self.entries(1600, True), self.entries(3, False)
        plan = self.plan(*idle, *moving)
        requests = plan.take(5.0, 1603, ROOM)
        self.assertEqual([len(each) for each in requests], [100] * 16 + [3])
        for entry in (*idle[:10], *moving):
            plan.add(entry)
        self.assertEqual(plan.take(5.0, 1603, ROOM), [moving])
        self.assertEqual(plan.next_time(), plan.idle_from)
        self.assertGreater(plan.idle_from, 5.0)
        self.assertEqual(plan.take(plan.idle_from, 1603, ROOM), [idle[:10]])

    def test_requests_under_way_are_bounded(self) -> None:
        """At the bound nothing is taken; afterwards all that is in the queue goes together."""
        moving = self.entries(500, False)
        plan = self.plan(*moving)
        plan.under_way = MOST_REQUESTS
        self.assertEqual(plan.take(0.0, 10_000, ROOM), [])
        plan.under_way -= 1
        self.assertEqual(plan.take(GATHER_SECONDS, 10_000, ROOM), [moving])

    def test_waiting_requests_do_not_hold_up_those_behind(self) -> None:
        """Partitions that have more to read are asked for first, while all requests that may wait are waiting."""
        moving, behind = self.entries(8000, False), self.entries(3, True)
        plan = self.plan(*moving)
        requests = plan.take(5.0, 1000, ROOM)
        self.assertEqual([len(each) for each in requests], [SMALL] * MOST_WAITING)
        for _ in requests:
            plan.begin(True)
        self.assertEqual(plan.take(5.0, 1000, ROOM), [])
        for entry in behind:
            entry.fetch.visible_end = 1
            plan.add(entry)
        self.assertEqual(plan.take(5.0, 1000, ROOM), [behind])
        plan.begin(False)
        plan.end(True)
        self.assertEqual(len(plan.take(5.0 + GATHER_SECONDS, 1000, ROOM)), 1)

    def test_moving_partitions_are_gathered_while_others_are_behind(self) -> None:
        """They go together when none is behind any more, at the latest after a short time."""
        first, second, behind = self.entries(10, False), self.entries(10, False), self.entries(3, True)
        for entry in behind:
            entry.fetch.visible_end = 1
        plan = self.plan(*behind, *first)
        self.assertEqual(plan.take(5.0, 1000, ROOM), [behind])
        plan.begin(False)
        self.assertEqual((plan.take(5.01, 1000, ROOM), plan.next_time()), ([], 5.0 + GATHER_SECONDS))
        self.assertEqual(plan.take(5.0 + GATHER_SECONDS, 1000, ROOM), [first])
        for entry in second:
            plan.add(entry)
        self.assertEqual(plan.take(6.0, 1000, ROOM), [])
        plan.end(False)
        self.assertEqual(plan.take(6.0, 1000, ROOM), [second])

    def test_partitions_behind_wait_for_memory(self) -> None:
        """As many are fetched as there is room for; if no answer is to come that makes room, all are."""
        behind = self.entries(300, False)
        for entry in behind:
            entry.fetch.visible_end = 1
        plan = self.plan(*behind)
        self.assertEqual(plan.take(5.0, 1000, 7), [behind[:7]])
        plan.begin(False)
        self.assertEqual(plan.take(5.0, 1000, 0), [])
        plan.end(False)
        self.assertEqual([len(each) for each in plan.take(5.0, 1000, 0)], [98, 98, 97])

    def test_partitions_behind_are_not_asked_for_a_few_at_a_time(self) -> None:
        """While an answer is to come, they wait for memory for enough of them, or for all."""
        behind = self.entries(20, False)
        for entry in behind:
            entry.fetch.visible_end = 1
        for ways in range(2):
            plan = self.plan(*behind)

            def take(room: int, owed: int, session: int = ways, plan: FetchPlan = plan) -> list[list[FetchEntry]]:
                plan.under_way = owed
                if session:
                    return plan.take_for_session(5.0, 1000, room, MOST_REQUESTS, owed, 8)
                return plan.take(5.0, 1000, room, 8)

            self.assertEqual(take(3, 0), [behind[:3]])
            self.assertEqual(take(7, 1), [])
            self.assertEqual(take(8, 1), [behind[3:11]])
            self.assertEqual(take(8, 1), [behind[11:19]])
            self.assertEqual((take(0, 1), take(1, 1)), ([], [behind[19:]]))

    def test_a_request_is_worth_a_quarter_of_the_memory(self) -> None:
        """However little there is."""
        self.assertEqual([FetchMemory(size).enough_pieces for size in (8 << 20, 256 << 10, 1024)], [32, 1, 0])

    def test_requests_for_few_of_many_wait_a_shorter_time(self) -> None:
        """The partitions asked for in a second are not more for that, down to a tenth of the time."""
        self.assertEqual([longest_wait(0.5, 100, asked) for asked in (1, 100)], [0.5, 0.5])
        waits = [round(longest_wait(0.5, 16_000, asked), 3) for asked in (1000, 500, 100, 1)]
        self.assertEqual(waits, [3.2, 1.6, 0.32, 0.32])

    def test_an_entry_is_queued_once(self) -> None:
        """Adding it again changes nothing, and discarding it once takes it out."""
        (entry,) = self.entries(1, False)
        plan = self.plan(entry, entry)
        plan.discard(entry)
        self.assertEqual((plan.take(0.0, 1, ROOM), plan.has_any), ([], False))
        plan.add(entry)
        self.assertEqual(plan.take_all(), [entry])


class EndsTests(SynchronousTestCase):
    """The test for whether a reader has reached the ends it was given."""

    def test_reaching_all_ends_takes_few_looks(self) -> None:
        """Looks are as many as partitions and calls together, not their product."""
        looks = []
        positions = dict.fromkeys(range(1000), 0)

        def position(partition: int) -> int:
            looks.append(partition)
            return positions[partition]

        ends = Ends(dict.fromkeys(range(1000), 5))
        for partition in range(1000):
            self.assertFalse(ends.reached(position, 0))
            positions[partition] = 5
        self.assertTrue(ends.reached(position, 0))
        self.assertEqual(len(looks), 2000)

    def test_a_seek_makes_all_ends_be_looked_at_anew(self) -> None:
        """The position may be in front of an end that was reached before."""
        positions = {0: 5, 1: 4}
        ends = Ends({0: 5, 1: 5})
        self.assertFalse(ends.reached(positions.__getitem__, 0))
        positions.update({0: 3, 1: 5})
        self.assertFalse(ends.reached(positions.__getitem__, 1))
