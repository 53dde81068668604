"""Tests of positions that do not hold any more: of topics that were created again, of what was removed or given away."""

from __future__ import annotations

import re

from twisted.internet.defer import Deferred

from logd.errors import OffsetOutOfRange
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.topic import TopicPartition
from tests.client.consumers import ConsumerCase
from tests.client.groups import Application, ClientGroupCase

#: Bytes of one of the entries of ClientGroupCase, and of those that have this many more in their payload.
ENTRY = 4 + 1 + 4 + 8
LONGER = 6


class PlainTests(ConsumerCase):
    """A consumer without a group. Three partitions of one hundred messages are created again."""

    def make_again(self, count: int, more: int = 0) -> list[bytes]:
        """Delete the topic and make it again; return its messages, sorted."""
        payloads = []
        for number, log in self.broker.make_again("t").items():
            mine = [b"again-%d-%04d" % (number, index) + b"x" * more for index in range(count)]
            log.data += encode_set([Message(payload) for payload in mine])
            payloads += mine
        return sorted(payloads)

    def test_shorter(self) -> None:
        """The position is not in the new log: reading goes on at its beginning, once."""
        stream = self.stream()
        messages, _ = self.read(stream)
        self.run_for()
        expected = self.make_again(20)
        self.run_for(2.0)
        self.assertEqual(sorted(message.payload or b"" for message in messages[300:]), expected)
        self.assertEqual(stream.jumps, 3)

    def test_longer(self) -> None:
        """The position is inside of one of the new log's entries: that is no damage."""
        stream = self.stream(metadata_age=3600.0)
        messages, reading = self.read(stream)
        self.run_for()
        expected = self.make_again(300, LONGER)
        self.run_for(3.0)
        self.assertNoResult(reading)
        self.assertEqual(sorted(message.payload or b"" for message in messages[300:]), expected)
        self.assertEqual(stream.jumps, 3)

    def test_entries_of_the_same_lengths(self) -> None:
        """Where nothing tells it, what is known of the topic is read again from time to time."""
        stream = self.stream(metadata_age=1.0)
        messages, _ = self.read(stream)
        self.run_for()
        expected = self.make_again(150)
        self.run_for(3.0)
        self.assertLessEqual(set(expected), {message.payload for message in messages})
        self.assertEqual(stream.jumps, 3)

    def test_reads_on_when_nothing_is_made_again(self) -> None:
        """Looking at the metadata again changes nothing by itself."""
        stream = self.stream(metadata_age=0.2)
        messages, _ = self.read(stream)
        self.run_for(3.0)
        self.assertEqual((len(messages), stream.jumps), (300, 0))

    def test_fail(self) -> None:
        """With ``on_out_of_range="fail"`` the stream says what happened, and goes on where it is told to."""
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

    def test_latest(self) -> None:
        """With "latest" what is new from then on is read."""
        stream = self.stream([0], on_out_of_range="latest")
        messages, _ = self.read(stream)
        self.run_for()
        self.make_again(20)
        self.run_for(2.0)
        self.broker.logs["t"][0].data += encode_set([Message(b"new")])
        self.run_for(1.0)
        self.assertEqual([message.payload for message in messages[100:]], [b"new"])


class GroupTests(ClientGroupCase):
    """A group's consumer. Four partitions of fifty messages are created again."""

    def messages(self, count: int, more: int = 0) -> list[Message]:
        """What the new topic holds in each partition."""
        return [Message(b"again-%04d" % index + b"x" * more) for index in range(count)]

    def begins_anew(self, app: Application, count: int) -> None:
        """All that is in the new topic is handed over, and then committed; once, but for a moment's work."""
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

    def test_by_name(self) -> None:
        """Stored positions are not applied to the new topic, which is longer than the old one was."""
        app = Application(self, commit_interval=0.5).read()
        self.run_for(2.0)
        self.make_again("t", self.messages(200, LONGER))
        self.begins_anew(app, 200)

    def test_by_pattern(self) -> None:
        """The same for who reads it by a pattern, with nothing committed yet."""
        app = Application(self, re.compile("t"), commit_interval=0.0).read()
        self.run_for(2.0)
        self.make_again("t", self.messages(10, LONGER))
        self.begins_anew(app, 10)

    def test_handled(self) -> None:
        """What was said of messages of the former topic says nothing of the new one's."""
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

    def test_metadata_is_behind(self) -> None:
        """As long as the brokers speak of another topic than the tree, nothing is read."""
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

    def test_where_to_begin_is_asked_of_the_new_topic(self) -> None:
        """A group that begins at the end does not take that of a log which the leader is about to delete."""
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


class FormerTenureTests(ClientGroupCase):
    """A partition that was taken away, and given back."""

    def test_handled_too_late(self) -> None:
        """What was handed over before is not handled now, where others have gone on meanwhile: nothing goes back."""
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


class JumpTests(ClientGroupCase):
    """Positions that retention has removed under a group's consumer."""

    def remove(self, count: int) -> None:
        """Retention removes the first messages of each partition."""
        for log in self.broker.logs["t"].values():
            del log.data[: ENTRY * count - log.start]
            log.start = ENTRY * count

    def test_raw(self) -> None:
        """Behind what was removed boundaries are counted anew, from where a chunk begins."""
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

    def test_backwards(self) -> None:
        """A position behind the log's end: what comes again is not handled because its place once was."""
        app = Application(self, commit="handled", commit_interval=0.0).read()
        self.run_for(1.0)
        for message in app.got:
            app.streams[0].handled(message)
        log = self.broker.logs["t"][0]
        del log.data[ENTRY * 10 :]
        self.run_for(1.0)
        self.assertEqual(len(app.got), 210)
        self.assertEqual(app.streams[0].group_state.handled_positions()[TopicPartition("t", 0)], 0)
