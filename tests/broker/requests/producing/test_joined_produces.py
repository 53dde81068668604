"""Tests of Produces for one partition that arrive together: they fare as if each had come alone."""

from __future__ import annotations

from typing import Any
from unittest import mock

from logd.broker.requests.produce import ProduceRequests
from logd.protocol.batch_layout import set_with_leader_epoch
from logd.protocol.conversation.server import MOST_JOINED
from logd.protocol.requests.legacy_requests import Fetch, JoinedProduces, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from tests.broker.rig import BrokerTestCase, Peer
from tests.log.entries import batch, plain, record, timed

ONE, TWO, THREE = plain(b"one"), plain(b"two"), plain(b"three")
BAD = ONE[:-1] + b"E"


def all_of(topic: str, *sets: bytes) -> list[Produce]:
    """Return a Produce for each set."""
    return [Produce(topic, 0, each) for each in sets]


class JoinedTestCase(BrokerTestCase):
    """Tests that also look at whether Produces were taken together."""

    def setUp(self) -> None:
        """Note the number of requests of each that are taken together."""
        BrokerTestCase.setUp(self)
        self.together: list[int] = []
        take = ProduceRequests.joined_produces

        def noted(producing: Any, request: JoinedProduces) -> bool:
            self.together.append(len(request.sizes))
            return take(producing, request)

        patch = mock.patch.object(ProduceRequests, "joined_produces", noted)
        patch.start()
        self.addCleanup(patch.stop)

    def state(self, topic: str) -> tuple[object, ...]:
        """Return the log's segments, and the counters that tell of messages."""
        counters = self.broker.counters
        segments = [(start, size) for start, size, _ in self.log_of(topic).segments()]
        return self.content(topic), segments, counters.messages_in, counters.bytes_in, counters.sets_refused

    def assert_alike(self, *sets: bytes, refused: int = 0, **settings: int | str) -> None:
        """Check that sets fare alike in one read and in a read each, as to what is stored, where, and refused."""
        results = []
        for topic, together in (("together", True), ("alone", False)):
            self.create(topic, 1, **settings)
            peer, before = self.connect(), self.broker.counters.requests
            _, _, messages, size, refusals = self.state(topic)
            for requests in (all_of(topic, *sets),) if together else [[each] for each in all_of(topic, *sets)]:
                peer.send(*requests)
                self.settle()
            self.assertEqual(self.broker.counters.requests - before, len(sets))
            found = self.state(topic)
            results.append((*found[:2], found[2] - messages, found[3] - size, found[4] - refusals))  # type: ignore[operator]
            self.assertFalse(peer.lost)
        self.assertEqual(results[0], results[1])
        self.assertEqual(results[0][4], refused)
        self.assertEqual(self.together, [len(sets)])


class JoinedProducesTests(JoinedTestCase):
    """Sets of one topic and partition in one read."""

    def test_they_are_stored_in_order(self) -> None:
        """Sets of one message and of several."""
        self.assert_alike(ONE, TWO + THREE, timed(b"later", 7))
        self.assertEqual(self.content("together"), ONE + TWO + THREE + timed(b"later", 7))

    def test_they_become_one_write(self) -> None:
        """That is the purpose of joining them."""
        self.create("t")
        peer = self.connect()
        appended = []
        log = self.log_of("t")
        append = log.append

        def noted(sets: Any, messages: int, newest: int) -> int:
            appended.append((list(sets), messages, newest))
            return append(sets, messages, newest)

        with mock.patch.object(type(log), "append", lambda log, *given: noted(*given)):
            peer.send(*all_of("t", ONE, TWO, timed(b"later", 7)))
            self.settle()
        self.assertEqual(appended, [([ONE + TWO + timed(b"later", 7)], 3, 7)])

    def test_a_bad_set_harms_no_other(self) -> None:
        """Wherever it is, and whatever is wrong with it."""
        for at in range(3):
            self.together.clear()
            sets = [ONE, TWO, THREE]
            sets[at] = BAD
            topic = f"t{at}"
            self.create(topic)
            before = self.broker.counters.sets_refused
            self.connect().send(*all_of(topic, *sets))
            self.settle()
            self.assertEqual(self.content(topic), b"".join(each for each in sets if each != BAD))
            self.assertEqual(self.broker.counters.sets_refused, before + 1)
            self.assertEqual(self.together, [3])

    def test_a_large_message_is_refused_alone(self) -> None:
        """By the topic's own limit."""
        self.assert_alike(ONE, plain(bytes(80)), TWO, refused=1, message_bytes=50)

    def test_half_entries_are_not_put_together(self) -> None:
        """The two sets are refused, though together they would be an entry."""
        self.create("t")
        self.connect().send(*all_of("t", ONE, TWO, THREE[:9], THREE[9:], ONE, TWO))
        self.settle()
        self.assertEqual(self.content("t"), ONE + TWO + ONE + TWO)
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidMessage": 2})
        self.assertEqual(self.together, [2, 2])

    def test_a_topic_of_0_7_refuses_its_own(self) -> None:
        """Messages that clients of 0.7 cannot read are refused from among those that they can."""
        self.assert_alike(ONE, timed(b"later", 7), batch(record(b"in a batch")), TWO, refused=2, message_format="0.7")
        self.assertEqual(self.content("together"), ONE + TWO)

    def test_segments_begin_where_they_would(self) -> None:
        """After as many messages as if each had been appended by itself."""
        self.assert_alike(*[plain(b"%3d" % number) for number in range(40)], segment_bytes=100)
        self.assertGreater(len(self.log_of("together").segments()), 3)

    def test_segments_count_what_is_gathered_already(self) -> None:
        """The sets of earlier requests of the read are not in the log yet."""
        results = []
        for topic, at_once in (("together", 100), ("alone", 1)):
            self.create(topic, segment_bytes=100)
            self.create(topic + "-other")
            peer = self.connect()
            requests: list[Produce] = []
            for number in range(5):
                requests += [*all_of(topic, plain(b"%3d" % number)), *all_of(topic + "-other", ONE)]
            requests += all_of(topic, *[plain(b"%3d" % number) for number in range(6)])
            for begin in range(0, len(requests), at_once):
                peer.send(*requests[begin : begin + at_once])
                self.settle()
            results.append((self.content(topic), [each[:2] for each in self.log_of(topic).segments()]))
        self.assertEqual(results[0], results[1])
        self.assertGreater(len(results[0][1]), 1)

    def test_batches_wait_for_the_directorys_format(self) -> None:
        """The first ones; later ones are stored at once, with the leader epoch of the broker."""
        sets = [ONE, batch(record(b"in a batch")), TWO]
        self.assertFalse(self.store.batch_format.ready)
        self.create("first")
        self.connect().send(*all_of("first", *sets))
        self.settle()
        self.assertTrue(self.store.batch_format.ready)
        self.assertEqual(self.content("first"), b"".join(sets))
        self.together.clear()
        self.assert_alike(*sets)
        self.assertEqual(self.content("together"), b"".join(sets))
        self.together.clear()
        self.connect().send(*all_of("together", *[set_with_leader_epoch(each, 7) for each in sets]))
        self.settle()
        self.assertEqual(self.content("together"), b"".join(sets) * 2)

    def test_other_places_in_between_end_the_row(self) -> None:
        """Each place has its own sets in order."""
        self.create("t", 2)
        self.create("u")
        places = [("t", 0), ("t", 0), ("t", 1), ("u", 0), ("u", 0), ("t", 0), ("t", 0), ("t", -1), ("t", -1)]
        requests = [Produce(*place, plain(b"%d" % number)) for number, place in enumerate(places)]
        self.connect().send(*requests)
        self.settle()
        self.assertEqual(self.content("u"), plain(b"3") + plain(b"4"))
        chosen = sorted([plain(b"7"), plain(b"8")])
        zero, one = self.content("t", 0), self.content("t", 1)
        self.assertTrue(zero.startswith(plain(b"0") + plain(b"1") + plain(b"5") + plain(b"6")))
        self.assertEqual(sorted([zero[-len(chosen[0]) :], one[-len(chosen[0]) :]]), chosen)
        self.assertEqual(self.together, [2, 2, 2])

    def test_an_offline_partition_refuses_each(self) -> None:
        """And so does one that this broker does not have."""
        self.create("t")
        peer = self.connect()
        self.log_of("t").go_offline(OSError(5, "Input/output error"))
        peer.send(*all_of("t", ONE, TWO), Produce("t", 7, ONE), Produce("t", 7, ONE), Produce("t", 7, ONE))
        self.settle()
        self.assertEqual(self.broker.counters.refused_by_error, {"PartitionOffline": 2, "WrongPartition": 3})
        self.assertEqual(len(self.events.warnings("for topic 't', partition 0: t-0 is offline")), 2)
        self.assertEqual(self.together, [2, 3])

    def test_a_full_disk_refuses_each(self) -> None:
        """Those of the read that were not joined too; later ones are stored once there is room."""
        self.create("t")
        self.create("u")
        peer = self.connect()
        self.files.room = len(ONE) + 3
        peer.send(*all_of("t", ONE, TWO), *all_of("u", ONE), *all_of("t", THREE))
        self.settle()
        self.files.room = None
        self.assertEqual(self.broker.counters.refused_by_error, {"StorageFull": 4})
        self.assertEqual((self.content("t"), self.content("u")), (b"", b""))
        peer.send(*all_of("t", ONE, TWO))
        self.settle()
        self.assertEqual(self.content("t"), ONE + TWO)

    def test_they_make_their_topic(self) -> None:
        """And wait for it, before the requests behind them."""
        peer = self.connect()
        before = self.broker.counters.requests
        peer.send(*all_of("new", ONE, BAD, TWO), Fetch("new", 0, 0, 1000), *all_of("new", THREE, ONE))
        self.assertFalse(peer.reading)
        self.settle()
        self.assertEqual(self.content("new"), ONE + TWO + THREE + ONE)
        self.assertEqual(len(peer.answers()), 1)
        self.assertEqual(self.broker.counters.requests, before + 6)

    def test_a_fetch_behind_them_reads_them(self) -> None:
        """Once they are flushed; what is behind the fetch comes later."""
        self.create("t")
        peer = self.connect()
        peer.send(*all_of("t", ONE, TWO))
        self.settle()
        peer.send(*all_of("t", THREE, ONE), Fetch("t", 0, 0, 1000))
        self.settle()
        self.assertEqual(peer.answers(), [FetchResponse(0, ONE + TWO)])

    def test_no_more_than_a_turn_are_taken_together(self) -> None:
        """A request is not divided, so its number is bounded."""
        self.create("t")
        self.connect().send(*all_of("t", *[ONE] * (2 * MOST_JOINED + 1)))
        self.settle()
        self.assertEqual(self.together, [MOST_JOINED, MOST_JOINED])
        self.assertEqual(self.content("t"), ONE * (2 * MOST_JOINED + 1))

    def test_frames_may_be_cut_anywhere(self) -> None:
        """Two reads in place of one."""
        sets = [ONE, TWO + THREE, BAD, ONE, plain(bytes(50))]
        stream = b"".join(b"".join(Peer(None, None).conversation.send(each)) for each in all_of("t", *sets))  # type: ignore[arg-type]
        self.create("t")
        peer = self.connect()
        wanted = b"".join(each for each in sets if each != BAD)
        for cut in range(len(stream) + 1):
            before = len(self.content("t"))
            peer.send_bytes(stream[:cut])
            peer.send_bytes(stream[cut:])
            self.settle()
            self.assertEqual(self.content("t")[before:], wanted)
        self.assertEqual(self.broker.counters.sets_refused, len(stream) + 1)


class ClosingTests(JoinedTestCase):
    """A broker that closes the connection of a refused produce of 0.7."""

    options = {"legacy_refused_close": True}  # noqa: RUF012  # each class has its own

    def test_sets_before_the_refused_one_are_stored(self) -> None:
        """Those behind it are not, and one line says so."""
        self.create("t")
        peer = self.connect()
        peer.send(*all_of("t", ONE, TWO, BAD, THREE), Fetch("t", 0, 0, 1000), *all_of("t", ONE, TWO))
        self.settle()
        self.assertTrue(peer.lost)
        self.assertEqual(self.content("t"), ONE + TWO)
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidMessage": 1})
        self.assertEqual(len(self.events.warnings("legacy.refused.close = true")), 1)
        self.assertEqual(self.together, [4])

    def test_a_full_disk_closes_it(self) -> None:
        """Each of them is counted as refused."""
        self.create("t")
        self.files.room = 0
        peer = self.connect()
        peer.send(*all_of("t", ONE, TWO))
        self.settle()
        self.files.room = None
        self.assertTrue(peer.lost)
        self.assertEqual(self.broker.counters.refused_by_error, {"StorageFull": 2})
