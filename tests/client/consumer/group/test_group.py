"""Tests of consumers in groups: sharing, handing over, committing what was handled; a broker and a tree in memory."""

from __future__ import annotations

import re

from twisted.internet.defer import Deferred

from logd.client.consumer.consumer import Consumer
from logd.coord.records import SessionState
from logd.errors import ClientClosed, ConfigurationError, InvalidTopic, PartitionLost
from logd.protocol.batch import encode_batch
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.testing.inprocess.client import InProcessCoordination
from logd.topic import TopicPartition
from tests.client.groups import Application, ClientGroupTestCase

#: Bytes of one of the topic's entries: length, magic, crc and "t-0-0000".
ENTRY = 4 + 1 + 4 + 8


class SharingTests(ClientGroupTestCase):
    """Members of groups that share partitions."""

    def test_each_message_goes_to_one_member(self) -> None:
        """The order of its partition is kept."""
        one, two = Application(self).read(), Application(self)
        two.read()
        self.run_for(2.0)
        self.assertEqual(sorted(one.payloads() + two.payloads()), self.everything())
        self.assertEqual({len(app.got) for app in (one, two)}, {100})
        for app in (one, two):
            self.in_order(app.got)

    def test_every_group_gets_every_message(self) -> None:
        """Groups have positions of their own."""
        apps = [Application(self, group=group).read() for group in "gh"]
        self.run_for(2.0)
        for app in apps:
            self.assertEqual(sorted(app.payloads()), self.everything())

    def test_streams_of_one_consumer_share_its_partitions(self) -> None:
        """An application with several loops shares as several consumers do."""
        app = Application(self, n=3).read()
        self.run_for(2.0)
        self.assertEqual([len(stream.partitions()) for stream in app.streams], [2, 1, 1])
        self.assertEqual(sorted(app.payloads()), self.everything())
        self.assertEqual(self.successResultOf(app.streams[0].assigned()), (0, 1))
        self.assertEqual(set(app.streams[0].positions()), {0, 1})

    def test_a_group_stream_never_ends(self) -> None:
        """Messages that are appended later come."""
        app = Application(self).read()
        self.run_for(1.0)
        self.broker.logs["t"][2].data += encode_set([Message(b"t-2-9999")])
        self.run_for(1.0)
        self.assertEqual(app.payloads()[-1], b"t-2-9999")

    def test_a_pattern_subscribes_to_matching_topics(self) -> None:
        """Topics that are made later are among them."""
        self.topic("web-1", 2, 5)
        app = Application(self, re.compile(r"web-\d+"), 2).read()
        self.run_for(1.0)
        self.topic("web-22", 3, 5)
        self.topic("web-x", 2, 5)
        self.run_for(1.0)
        self.assertEqual(sorted(app.payloads()), sorted(self.everything("web-1") + self.everything("web-22")))
        self.assertEqual(app.streams[0].positions("web-22"), {0: 5 * 22, 1: 5 * 22})

    def test_brokers_are_found_in_the_tree(self) -> None:
        """A consumer with a coordination client needs no addresses."""
        app = Application(self, brokers=None).read()
        self.run_for(2.0)
        self.assertEqual(sorted(app.payloads()), self.everything())

    def test_all_streams_share_one_prefetch_budget(self) -> None:
        """Streams that had one each would multiply the memory."""
        app = Application(self, n=4, prefetch_bytes=1200, fetch_bytes=300)
        self.run_for(2.0)
        held = sum(fetch.buffered for stream in app.streams for fetch in stream.state._fetches.values())
        self.assertGreater(held, 600)
        self.assertLessEqual(held, 1200)
        app.read()
        self.run_for(3.0)
        self.assertEqual(sorted(app.payloads()), self.everything())

    def test_listeners_are_told_of_partitions(self) -> None:
        """The partitions are given back only after the Deferred of on_revoked has fired."""
        told: list[tuple[str, int]] = []
        finishing: Deferred[None] = Deferred()

        def revoked(places: list[TopicPartition]) -> Deferred[None]:
            told.append(("-", len(places)))
            return finishing

        app = Application(self, on_assigned=lambda places: told.append(("+", len(places))), on_revoked=revoked)
        self.run_for(1.0)
        other = Application(self)
        self.run_for(1.0)
        self.assertEqual(told, [("+", 4), ("-", 4)])
        finishing.callback(None)
        self.run_for(1.0)
        self.assertEqual(told, [("+", 4), ("-", 4), ("+", 2)])
        self.assertEqual(len(app.consumer.group.partitions if app.consumer.group else ()), 2)
        self.assertEqual(len(other.streams[0].partitions()), 2)

    def test_settings_that_contradict_are_refused(self) -> None:
        """Settings of a group without one would be ignored; the error names the remedy."""
        consumer = Application(self).consumer
        self.assertRaises(ConfigurationError, consumer.create_message_streams, "t", 1)
        self.assertRaises(ConfigurationError, consumer.create_message_streams, "u", 1, [0])
        self.assertRaises(InvalidTopic, consumer.create_message_streams, "a/b", 1)
        coordination = InProcessCoordination(self.host, self.clock)
        for wrong in ({"coordination": coordination}, {"commit_interval": 1.0}, {"consumer_name": "x"}):
            self.assertRaises(ConfigurationError, Consumer, reactor=self.clock, **wrong)
        for wrong in ({"group": "a/b"}, {"group": "g", "consumer_name": "a/b"}, {"group": "g", "zookeeper": "x:1"}):
            self.assertRaises(ConfigurationError, Consumer, reactor=self.clock, coordination=coordination, **wrong)
        alone = Consumer(reactor=self.clock)
        self.assertRaises(ConfigurationError, alone.commit)
        self.assertRaises(ConfigurationError, alone.create_message_streams, re.compile("t"), 1)


class HandingOverTests(ClientGroupTestCase):
    """Partitions that pass from one member to another, and the messages that come twice by it."""

    def test_a_closed_member_hands_over_at_once(self) -> None:
        """The next one goes on with the message that was in hand: no later one had been asked for."""
        one = Application(self).read(30)
        self.run_for(1.0)
        self.assertEqual(len(one.got), 30)
        closing = one.consumer.close()
        self.run_for(0.1)
        self.successResultOf(closing)
        two = Application(self).read()
        self.run_for(1.0)
        self.assertEqual(len(two.got), 200 - 29)  # the thirtieth was in hand: nobody asked for the next
        self.assertEqual(sorted({*one.payloads(), *two.payloads()}), self.everything())
        self.failureResultOf(one.streams[0].get(), ClientClosed)

    def test_a_killed_member_repeats_uncommitted_messages_only(self) -> None:
        """The member's session has to end first, which takes its timeout."""
        one = Application(self, commit_interval=0.0).read(50)
        self.run_for(1.0)
        one.consumer.commit()
        self.run_for(0.1)
        one.read(20)
        self.run_for(0.1)
        self.assertEqual(len(one.got), 70)
        one.kill()
        two = Application(self).read()
        self.run_for(12.0)
        self.assertEqual(len(two.got), 200 - 49)
        self.assertEqual(sorted({*one.payloads(), *two.payloads()}), self.everything())

    def test_a_join_repeats_only_the_message_in_hand(self) -> None:
        """Nothing is lost, and no other message comes twice."""
        one = Application(self, decode_messages=7)
        one.busy = Deferred()
        one.read()
        self.run_for(0.5)
        self.assertEqual(len(one.got), 1)
        busy, one.busy = one.busy, None
        two = Application(self).read()
        self.run_for(0.5)
        busy.callback(None)
        self.run_for(2.0)
        both = one.payloads() + two.payloads()
        self.assertEqual(sorted(set(both)), self.everything())
        self.assertEqual(len(both), 201)

    def test_a_member_that_is_cut_off_stops_in_time(self) -> None:
        """No message is handed over once another member may own the partitions."""
        one = Application(self)
        self.run_for(0.5)
        self.successResultOf(one.streams[0].get())
        one.kill()
        two = Application(self)
        self.run_for(5.0)
        self.assertNoResult(one.streams[0].get())
        self.assertEqual(two.streams[0].partitions(), ())

    def test_a_process_that_stood_still_stops(self) -> None:
        """The session may have ended: no further batch is handed over, and nothing more of the one at hand."""
        one = Application(self, decode_messages=5)
        self.run_for(0.5)
        getting = [one.streams[0].get() for _ in range(5)]
        for each in getting:
            self.successResultOf(each)
        self.clock.rightNow += 5.0
        self.assertNoResult(one.streams[0].get())

    def test_a_fenced_commit_stops_its_partition(self) -> None:
        """The commit reports it, and the partition is read on from where the other's commit is."""
        app = Application(self, commit_interval=0.0).read()
        self.run_for(1.0)
        self.eye.set("/consumers/g/offsets/t/1", b"%d" % (ENTRY * 40))
        self.run_for(0.1)
        failing = app.consumer.commit()
        self.run_for(0.01)
        self.assertIn("partition 1", str(self.failureResultOf(failing, PartitionLost).value))
        before = len(app.got)
        self.run_for(1.0)
        again = app.payloads()[before:]
        self.assertEqual([p for p in again if p.startswith(b"t-1-")], [b"t-1-%04d" % n for n in range(40, 50)])
        self.assertEqual([p for p in again if not p.startswith(b"t-1-")], [])

    def test_close_leaves_only_positions_behind(self) -> None:
        """No timer is left, and no node of the member in the tree."""
        app = Application(self, n=2).read()
        self.run_for(1.0)
        closing = app.consumer.close()
        self.run_for(0.1)
        self.successResultOf(closing)
        for loop in app.loops:
            self.successResultOf(loop)
        self.assertIs(app.coordination.state, SessionState.CONNECTED)
        for path in ("/consumers/g/ids", "/consumers/g/owners/t"):
            reading = self.eye.get_children(path)
            self.run_for(0.01)
            self.assertEqual(self.successResultOf(reading), [])
        self.assertEqual([self.committed(number) for number in range(4)], [b"%d" % (ENTRY * 50)] * 4)
        for client in (app.coordination, self.eye):
            client.close()
        self.run_for(0.01)
        self.host.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])


class StartTests(ClientGroupTestCase):
    """The position at which a group begins."""

    def test_a_group_stores_where_latest_was(self) -> None:
        """A member that is killed before its first message would otherwise make the group skip some."""
        one = Application(self, start="latest", commit_interval=1.0).read()
        self.run_for(1.5)
        one.kill()
        self.broker.logs["t"][0].data += encode_set([Message(b"t-0-9999")])
        two = Application(self, start="latest").read()
        self.run_for(12.0)
        self.assertEqual(one.payloads(), [])
        self.assertEqual(two.payloads(), [b"t-0-9999"])

    def test_the_start_is_stored_before_the_first_message(self) -> None:
        """The first commit by time would come too late for a member that is killed soon."""
        one = Application(self, start="latest", commit_interval=0.0).read()
        self.run_for(0.5)
        for number in (8888, 9999):
            self.broker.logs["t"][0].data += encode_set([Message(b"t-0-%d" % number)])
        self.run_for(0.6)
        self.assertEqual(len(one.got), 2)
        one.kill()
        two = Application(self, start="latest").read()
        self.run_for(12.0)
        self.assertEqual(two.payloads(), one.payloads())

    def test_a_stored_position_overrides_start(self) -> None:
        """The setting is for groups that have been nowhere."""
        one = Application(self).read(10)
        self.run_for(1.0)
        one.consumer.close()
        self.run_for(0.1)
        two = Application(self, start="latest").read()
        self.run_for(1.0)
        # The loop had one partition in hand; where it had been it goes on, and the others begin where they were found.
        self.assertEqual(len(two.got), 191)

    def test_a_removed_position_follows_start(self) -> None:
        """The jumps are counted."""
        one = Application(self).read(2)
        self.run_for(1.0)
        one.consumer.close()
        self.run_for(0.1)
        for log in self.broker.logs["t"].values():
            del log.data[: ENTRY * 20]
            log.start = ENTRY * 20
        for start, expected in (("latest", 0), ("earliest", 120)):
            with self.subTest(start=start):
                app = Application(self, start=start, commit_interval=0.0)
                app.read()
                self.run_for(1.0)
                self.assertEqual(len(app.got), expected)
                self.assertEqual(sum(stream.jumps for stream in app.streams), 4)
                app.kill()
                self.run_for(12.0)


class HandledTests(ClientGroupTestCase):
    """Messages that count as handled, to the message."""

    def position(self, app: Application, partition: int = 0) -> int:
        """Commit, and return the stored position."""
        committing = app.consumer.commit()
        self.run_for(0.05)
        self.successResultOf(committing)
        return int(self.committed(partition))

    def test_a_message_counts_once_the_next_is_asked_for(self) -> None:
        """Until then the application may be busy with it."""
        app = Application(self, commit_interval=0.0)
        self.run_for(0.5)
        (stream,) = app.streams
        seen = []
        for count in range(1, 4):
            message = self.successResultOf(stream.get())
            self.assertEqual(message.id, ENTRY * (count - 1))
            seen.append(self.position(app, message.partition))
        self.assertEqual(seen, [0, ENTRY, ENTRY * 2])

    def test_a_reader_that_waits_has_handled_all(self) -> None:
        """At the end of what is held the loop has asked for a next message, though there is none."""
        app = Application(self, commit_interval=0.0)
        app.busy = Deferred()
        app.read()
        self.run_for(0.5)
        self.assertEqual([self.position(app, number) for number in range(4)], [0] * 4)
        busy, app.busy = app.busy, None
        busy.callback(None)
        self.run_for(0.5)
        self.assertEqual([self.position(app, number) for number in range(4)], [ENTRY * 50] * 4)

    def test_a_batch_counts_as_a_whole(self) -> None:
        """The rest of a batch that was begun message by message counts as one, too."""
        app = Application(self, commit_interval=0.0, decode_messages=10)
        self.run_for(0.5)
        (stream,) = app.streams
        first = self.successResultOf(stream.get())
        batches = stream.batches()
        committed = []
        for _ in range(5):
            batch = self.successResultOf(Deferred.fromCoroutine(_anext(batches)))
            committed.append((batch.partition, batch.position, self.position(app, batch.partition)))
        self.assertEqual(committed[0], (first.partition, ENTRY, ENTRY))
        for _, began, stored in committed:
            self.assertEqual(stored, began)
        self.assertEqual(self.position(app, committed[0][0]), ENTRY * 10)

    def test_a_raw_chunk_counts_up_to_its_last_boundary(self) -> None:
        """A chunk may end inside an entry, where the next member could not begin."""
        app = Application(self, commit_interval=0.0, fetch_bytes=100)
        self.run_for(0.5)
        chunks = app.streams[0].raw()
        seen: dict[int, int] = {}
        for _ in range(6):
            chunk = self.successResultOf(Deferred.fromCoroutine(_anext(chunks)))
            self.run_for(0.1)
            self.assertEqual(self.position(app, chunk.partition), seen.get(chunk.partition, 0))
            seen[chunk.partition] = chunk.next_position // ENTRY * ENTRY
        self.assertTrue(chunk.next_position % ENTRY)

    def test_messages_count_when_the_application_names_them(self) -> None:
        """With commit="handled" nothing else counts, nor does an earlier message move the position back."""
        app = Application(self, commit_interval=0.0, commit="handled").read()
        self.run_for(0.5)
        self.assertEqual([self.position(app, number) for number in range(4)], [0] * 4)
        mine = [message for message in app.got if message.partition == 2]
        app.streams[0].handled(mine[6])
        self.assertEqual([self.position(app, number) for number in range(4)], [0, 0, ENTRY * 7, 0])
        app.streams[0].handled(mine[3])
        self.assertEqual(self.position(app, 2), ENTRY * 7)
        app.kill()
        two = Application(self, commit="handled").read()
        self.run_for(12.0)
        self.assertEqual(len(two.got), 193)
        app.streams[0].handled(mine[9])  # of no effect: the partition is another's

    def test_a_position_inside_a_wrapper_or_a_batch_is_committed(self) -> None:
        """The next owner begins with the very next message of the entry."""
        messages = [Message(b"w-%d" % number) for number in range(20)]
        for topic, entry in (("z", wrap(messages, "zstd")), ("y", encode_batch(messages))):
            self.topic(topic, 1, 0)
            self.broker.logs[topic][0].data += entry
            one = Application(self, topic, commit_interval=0.0).read(8)
            self.run_for(1.0)
            one.consumer.close()
            self.run_for(0.1)
            two = Application(self, topic).read()
            self.run_for(1.0)
            self.assertEqual(two.payloads(), [b"w-%d" % number for number in range(7, 20)], topic)

    def test_a_group_goes_on_where_a_stream_sought_to(self) -> None:
        """The position is committed as it is, before a message was read there."""
        app = Application(self, commit_interval=0.0).read()
        self.run_for(0.5)
        app.streams[0].close()
        app = Application(self, group="h", commit_interval=0.0)
        self.run_for(0.5)
        app.streams[0].seek(1, ENTRY * 45)
        self.assertEqual(self.position_of("h", app), ENTRY * 45)

    def position_of(self, group: str, app: Application) -> int:
        """Commit, and return the stored position of another group in partition 1."""
        app.consumer.commit()
        self.run_for(0.05)
        return int(self.committed(1, group=group))


async def _anext(iterator):  # type: ignore[no-untyped-def]
    return await anext(iterator)
