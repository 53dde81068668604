"""Tests of positions that hold no more: of topics created again, of removed messages, of partitions given away."""

from __future__ import annotations

import re

from twisted.internet.defer import Deferred

from logd.errors import OffsetOutOfRange
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.topic import TopicPartition
from tests.client.consumers import ConsumerTestCase
from tests.client.groups import Application, ClientGroupTestCase

#: Bytes of one of the entries of ClientGroupTestCase, and of those that have this many more in their payload.
ENTRY = 4 + 1 + 4 + 8
LONGER = 6


class UngroupedTests(ConsumerTestCase):
    """Consumers without a group, of a topic that is created again."""

    def make_again(self, count: int, more: int = 0) -> list[bytes]:
        """Delete the topic and make it again; return its messages, sorted."""
        payloads = []
        for number, log in self.broker.make_again("t").items():
            mine = [b"again-%d-%04d" % (number, index) + b"x" * more for index in range(count)]
            log.data += encode_set([Message(payload) for payload in mine])
            payloads += mine
        return sorted(payloads)

    def test_a_shorter_new_topic_is_read_from_its_beginning(self) -> None:
        """The former position is not in the new log; each message comes once."""
        stream = self.stream()
        messages, _ = self.read(stream)
        self.run_for()
        expected = self.make_again(20)
        self.run_for(2.0)
        self.assertEqual(sorted(message.payload or b"" for message in messages[300:]), expected)
        self.assertEqual(stream.jumps, 3)

    def test_a_longer_new_topic_is_read_from_its_beginning(self) -> None:
        """The former position is inside one of its entries, which is not damage."""
        stream = self.stream(metadata_age=3600.0)
        messages, reading = self.read(stream)
        self.run_for()
        expected = self.make_again(300, LONGER)
        self.run_for(3.0)
        self.assertNoResult(reading)
        self.assertEqual(sorted(message.payload or b"" for message in messages[300:]), expected)
        self.assertEqual(stream.jumps, 3)

    def test_a_new_topic_of_equal_lengths_is_found_in_time(self) -> None:
        """Only metadata shows the difference, which is read again once it is metadata_age old."""
        stream = self.stream(metadata_age=1.0)
        messages, _ = self.read(stream)
        self.run_for()
        expected = self.make_again(150)
        self.run_for(3.0)
        self.assertLessEqual(set(expected), {message.payload for message in messages})
        self.assertEqual(stream.jumps, 3)

    def test_reading_metadata_again_changes_nothing_by_itself(self) -> None:
        """The same topic is there, so the stream goes on without a jump."""
        stream = self.stream(metadata_age=0.2)
        messages, _ = self.read(stream)
        self.run_for(3.0)
        self.assertEqual((len(messages), stream.jumps), (300, 0))

    def test_a_new_topic_can_fail_the_stream(self) -> None:
        """With ``on_out_of_range="fail"`` the error says that the topic was created again, and a seek goes on."""
        stream = self.stream([0], on_out_of_range="fail")
        _, reading = self.read(stream)
        self.run_for()
        self.make_again(20)
        self.run_for(2.0)
        self.assertIn("deleted and created again", str(self.failureResultOf(reading, OffsetOutOfRange).value))
        stream.seek(0, 0)
        messages, _ = self.read(stream)
        self.run_for(2.0)
        self.assertEqual(len(messages), 20)

    def test_a_new_topic_can_be_read_from_its_end(self) -> None:
        """With ``on_out_of_range="latest"`` only messages that come later are read."""
        stream = self.stream([0], on_out_of_range="latest")
        messages, _ = self.read(stream)
        self.run_for()
        self.make_again(20)
        self.run_for(2.0)
        self.broker.logs["t"][0].data += encode_set([Message(b"new")])
        self.run_for(1.0)
        self.assertEqual([message.payload for message in messages[100:]], [b"new"])


class GroupTests(ClientGroupTestCase):
    """Consumers of a group, of a topic that is created again."""

    def messages(self, count: int, more: int = 0) -> list[Message]:
        """Return the messages of each partition of the new topic."""
        return [Message(b"again-%04d" % index + b"x" * more) for index in range(count)]

    def begins_anew(self, app: Application, count: int) -> None:
        """Assert that all messages of the new topic are handed over, and their ends committed."""
        self.run_for(3.0)
        again = [message for message in app.got if (message.payload or b"").startswith(b"again")]
        self.assertEqual(
            {(message.partition, message.payload) for message in again},
            {(partition, message.payload) for partition in range(4) for message in self.messages(count, LONGER)},
        )
        app.consumer.commit()
        self.run_for(0.1)
        self.assertEqual([int(self.committed(number)) for number in range(4)], [self.broker.logs["t"][0].end] * 4)
        for loop in app.loops:
            self.assertNoResult(loop)

    def test_a_group_begins_a_new_topic_anew(self) -> None:
        """The new topic is longer than the old one, so the stored positions would be inside it."""
        app = Application(self, commit_interval=0.5).read()
        self.run_for(2.0)
        self.make_again("t", self.messages(200, LONGER))
        self.begins_anew(app, 200)

    def test_a_pattern_begins_a_new_topic_anew(self) -> None:
        """Nothing was committed yet; positions in memory are not applied to the new topic, either."""
        app = Application(self, re.compile("t"), commit_interval=0.0).read()
        self.run_for(2.0)
        self.make_again("t", self.messages(10, LONGER))
        self.begins_anew(app, 10)

    def test_handled_messages_of_the_former_topic_do_not_count(self) -> None:
        """The next member reads the new topic from its beginning."""
        app = Application(self, commit="handled", commit_interval=0.3).read()
        self.run_for(1.0)
        for message in app.got:
            app.streams[0].handled(message)
        self.run_for(0.5)
        self.make_again("t", self.messages(100, LONGER))
        self.run_for(3.0)
        app.kill()
        two = Application(self).read()
        self.run_for(15.0)
        self.assertEqual(len(two.got), 400)

    def test_a_group_waits_for_brokers_behind_the_tree(self) -> None:
        """While brokers still speak of the former topic, nothing is read of it."""
        app = Application(self).read()
        self.run_for(1.0)
        former = self.broker.logs["t"]
        self.make_again("t", self.messages(5))
        now = self.broker.logs["t"], self.broker.uuids["t"]
        self.broker.logs["t"], self.broker.uuids["t"] = former, "uuid-t"
        self.run_for(1.0)
        for log in former.values():
            log.data += encode_set([Message(b"too late")])
        self.run_for(2.0)
        self.assertEqual(len(app.got), 200)
        self.broker.logs["t"], self.broker.uuids["t"] = now
        self.run_for(6.0)
        self.assertEqual(len(app.got), 220)

    def test_a_group_asks_the_new_topic_for_its_start(self) -> None:
        """A group that begins at the end must not take the end of a log that is about to be deleted."""
        app = Application(self, start="latest").read()
        self.run_for(1.0)
        former = self.broker.logs["t"]
        self.make_again("t", self.messages(60))
        now = self.broker.logs["t"], self.broker.uuids["t"]
        self.broker.logs["t"], self.broker.uuids["t"] = former, "uuid-t"
        self.run_for(3.0)
        self.broker.logs["t"], self.broker.uuids["t"] = now
        self.run_for(6.0)
        for log in self.broker.logs["t"].values():
            log.data += encode_set(self.messages(70)[60:])
        self.run_for(2.0)
        self.assertEqual(len(app.got), 40)


class FormerTenureTests(ClientGroupTestCase):
    """A partition that was taken away from a member and given back to it."""

    def test_a_late_handled_does_not_move_positions_back(self) -> None:
        """The message came before the partition was taken away, and others have gone on since."""
        one = Application(self, commit="handled", commit_interval=0.0).read()
        self.run_for(1.0)
        late = next(message for message in one.got if message.partition == 3)
        self.host.expire(one.coordination.session_id)
        two = Application(self, commit_interval=0.2).read()
        self.run_for(3.0)
        two.consumer.close()
        self.run_for(2.0)
        self.assertEqual(len(one.streams[0].partitions()), 4)
        committed = self.committed(3)
        self.assertGreater(int(committed), late.next_position)
        one.streams[0].handled(late)
        one.consumer.commit()
        self.run_for(0.1)
        self.assertEqual(self.committed(3), committed)


class JumpTests(ClientGroupTestCase):
    """Positions that retention has removed under a group's consumer."""

    def remove(self, count: int) -> None:
        """Remove the first messages of each partition, as retention does."""
        for log in self.broker.logs["t"].values():
            del log.data[: ENTRY * count - log.start]
            log.start = ENTRY * count

    def test_raw_reading_counts_entries_anew_after_a_jump(self) -> None:
        """Boundaries are counted from where the first chunk behind the jump begins."""
        app = Application(self, commit_interval=0.0, fetch_bytes=100, prefetch_bytes=1024)
        self.run_for(0.5)
        (stream,) = app.streams
        chunks: list[int] = []

        async def read() -> None:
            async for chunk in stream.raw():
                chunks.append(chunk.partition)
                if len(chunks) == 12:
                    self.remove(40)

        app.loops.append(Deferred.fromCoroutine(read()))
        self.run_for(1.0)
        self.assertEqual(stream.jumps, 4)
        app.consumer.commit()
        self.run_for(0.1)
        self.assertEqual([int(self.committed(number)) for number in range(4)], [ENTRY * 50] * 4)

    def test_a_jump_backwards_undoes_what_was_handled(self) -> None:
        """The log was cut below the position: messages that come again are not handled yet."""
        app = Application(self, commit="handled", commit_interval=0.0).read()
        self.run_for(1.0)
        for message in app.got:
            app.streams[0].handled(message)
        log = self.broker.logs["t"][0]
        del log.data[ENTRY * 10 :]
        self.run_for(1.0)
        self.assertEqual(len(app.got), 210)
        self.assertEqual(app.streams[0].group_state.handled_positions()[TopicPartition("t", 0)], 0)
