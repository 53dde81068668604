"""Tests of MessageStream.handle, against a broker in memory and on a clock turned by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.logger import formatEvent, globalLogPublisher

from logd.client.dead_letters.letter import DeadLetter, read_letter
from logd.errors import ConfigurationError, DeadLetterFailed, MessageTooLarge, StorageFull
from logd.protocol.loops import decode_set, encode_set
from logd.protocol.message import Message
from tests.client.consumers import ConsumerTestCase
from tests.client.groups import Application, ClientGroupTestCase


def poison(message: Message) -> bool:
    """Return whether a message is one of those that the handlers here fail at."""
    return (message.payload or b"").endswith(b"0")


class HandlingTestCase(ConsumerTestCase):
    """A topic of three partitions with one hundred messages each, ten of which are poison."""

    def letters(self, topic: str = "t.dead") -> list[DeadLetter]:
        """Return the dead letters that are stored."""
        logs = self.broker.logs.get(topic, {})
        return [
            read_letter(message) for log in logs.values() for message in decode_set(bytes(log.data), log.start).messages
        ]


class HandlingTests(HandlingTestCase):
    """The order, the retries and the end of a handling."""

    def test_messages_that_fail_become_dead_letters_and_the_rest_is_handled_in_order(self) -> None:
        """A letter has the original, its place, the reason and the attempts; the others come once each, in order."""
        got: list[Message] = []
        tries: list[int] = []

        def handler(message: Message) -> None:
            if poison(message):
                tries.append(message.id)
                raise ValueError(f"no good: {message.payload!r}")
            got.append(message)

        stream = self.stream()
        stream.handle(handler, retries=2, dead_letters="t.dead")
        self.run_for(30.0)
        for number in range(3):
            self.assertEqual(
                self.payloads(got, number), [b"%d-%08d" % (number, each) for each in range(100) if each % 10]
            )
        letters = self.letters()
        self.assertEqual((len(letters), len(tries)), (30, 90))
        first = min(letters, key=lambda each: each.origin)
        self.assertEqual(first.origin, ("t", 0, 0, 19, "uuid-t", ""))
        self.assertEqual((first.kind, first.error, first.attempts, first.count), ("message", "ValueError", 3, 1))
        self.assertIn("no good: b'0-00000000'", first.text)
        self.assertEqual(first.message, Message(b"0-00000000"))

    def test_without_dead_letters_the_error_ends_it_and_the_message_comes_again(self) -> None:
        """The stream stays before the message that failed; a second call begins with it."""
        got: list[int] = []

        def handler(message: Message) -> None:
            if message.id == 38 and len(got) < 3:
                raise KeyError("broken")
            got.append(message.id)

        stream = self.stream([0])
        handling = stream.handle(handler, retries=0)
        self.run_for()
        self.failureResultOf(handling, KeyError)
        self.assertEqual((got, stream.positions()), ([0, 19], {0: 38}))
        got.append(-1)
        stream.handle(handler, retries=0)
        self.run_for(2.0)
        self.assertEqual(got, [0, 19, -1, *range(38, 1900, 19)])

    def test_one_poison_message_in_each_of_many_partitions(self) -> None:
        """Each partition goes on behind its letter, and no more messages are in work at a time than allowed."""
        busy = most = 0
        got: list[Message] = []
        for log in self.broker.add("many", 1000).values():
            log.data += encode_set([Message(b"before"), Message(b"poison"), Message(b"behind")])

        async def handler(message: Message) -> None:
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            done: Deferred[None] = Deferred()
            self.clock.callLater(0.001, done.callback, None)
            await done
            busy -= 1
            if message.payload == b"poison":
                raise ValueError("poison")
            got.append(message)

        (stream,) = self.consumer().create_message_streams("many", 1)
        stream.handle(handler, retries=1, retry_delay=0.001, concurrency=50, dead_letters="t.dead")
        self.run_for(5.0)
        self.assertEqual((len(got), len(self.letters()), most), (2000, 1000, 50))
        self.assertEqual({each.origin.partition for each in self.letters()}, set(range(1000)))

    def test_a_slow_partition_does_not_hold_up_the_others(self) -> None:
        """A handler that waits takes one of the places alone."""
        waiting: Deferred[None] = Deferred()
        got: list[Message] = []

        def handler(message: Message) -> Deferred[None] | None:
            if message.partition == 1:
                return waiting
            got.append(message)
            return None

        handling = self.stream().handle(handler, concurrency=2)
        self.run_for(2.0)
        self.assertEqual([len(self.payloads(got, number)) for number in range(3)], [100, 0, 100])
        handling.cancel()
        self.failureResultOf(handling, CancelledError)
        self.assertTrue(waiting.called)

    def test_a_handler_that_hangs_is_cancelled_after_its_time(self) -> None:
        """Without a ``timeout`` it is waited for; with one, its message becomes a dead letter."""
        self.stream([0]).handle(
            lambda message: Deferred() if message.id == 19 else None, timeout=1.0, retries=1, dead_letters="t.dead"
        )
        self.run_for(5.0)
        (letter,) = self.letters()
        self.assertEqual((letter.origin.start, letter.attempts), (19, 2))
        self.assertIn("Timeout", letter.error)

    def test_a_handler_that_cancels_itself_has_failed(self) -> None:
        """A CancelledError of the handler is an error as others are."""
        self.stream([0]).handle(
            lambda message: fail(CancelledError()) if message.id == 19 else None, retries=0, dead_letters="t.dead"
        )
        self.run_for(2.0)
        self.assertEqual([each.origin.start for each in self.letters()], [19])

    def test_generators_are_refused_and_no_dead_letters(self) -> None:
        """Calling one runs nothing: every message would count as handled, or as poison."""

        async def stray(message: Message) -> AsyncIterator[Message]:
            yield message

        stream = self.stream([0])
        self.assertRaises(ConfigurationError, stream.handle, stray)
        for made in (stray, lambda message: (each for each in [message])):

            def handler(message: Message, made: Any = made) -> Any:
                return made(message)

            handling = stream.handle(handler, dead_letters="t.dead")
            self.run_for()
            self.assertIn("nothing here waits for", str(self.failureResultOf(handling, ConfigurationError).value))
        self.assertEqual((self.letters(), stream.positions()), ([], {0: 0}))

    def test_closing_from_inside_ends_it(self) -> None:
        """The message at hand is finished, and no further one comes."""
        got: list[int] = []
        stream = self.stream([0])

        def handler(message: Message) -> None:
            got.append(message.id)
            if message.id == 38:
                stream.close()

        handling = stream.handle(handler)
        self.run_for()
        self.successResultOf(handling)
        self.assertEqual(got, [0, 19, 38])

    def test_closing_gives_up_retries(self) -> None:
        """A message that waits for its next try is neither handled nor a dead letter: the next reader gets it."""
        stream = self.stream([0])
        handling = stream.handle(lambda message: 1 / 0, retry_delay=60.0, dead_letters="t.dead")
        self.run_for()
        stream.close()
        self.successResultOf(handling)
        self.assertEqual((self.letters(), stream.positions()), ([], {0: 0}))

    def test_seeking_from_inside_leaves_the_rest_out(self) -> None:
        """The next message is the one sought."""
        got: list[int] = []
        stream = self.stream([0])

        def handler(message: Message) -> None:
            got.append(message.id)
            if message.id == 19:
                stream.seek(0, 1881)

        stream.handle(handler)
        self.run_for()
        self.assertEqual(got, [0, 19, 1881])

    def test_one_handling_at_a_time(self) -> None:
        """Two would both hand over the messages of a partition."""
        stream = self.stream([0])
        stream.handle(lambda message: None)
        self.failureResultOf(stream.handle(lambda message: None), ConfigurationError)

    def test_wrong_settings_are_refused(self) -> None:
        """The same topic, and settings that are not there."""
        stream = self.stream([0])
        for wrong in ({"dead_letters": "t"}, {"retries": -1}, {"retrys": 1}):
            self.assertRaises(ConfigurationError, stream.handle, print, **wrong)
        self.assertRaises(ConfigurationError, self.stream, [0], on_corrupt="dead-letter")
        self.assertRaises(ConfigurationError, self.stream, [0], on_corrupt="dead-letter", dead_letters="t")


class UnwritableTests(HandlingTestCase):
    """A dead-letter topic that takes no letters: the stream stops, and passes nothing."""

    def refused(self, error: Any, **settings: Any) -> str:
        """Return the text of the failure, and check that the message comes again to the next handling."""
        self.broker.add("t.dead")
        self.broker.refuse = lambda part: error if part.topic == "t.dead" else None
        got: list[int] = []

        def handler(message: Message) -> None:
            got.append(message.id)
            if message.id == 38:
                raise ValueError("poison")

        stream = self.stream([0], dead_letter_timeout=5.0, **settings)
        handling = stream.handle(handler, retries=0, dead_letters="t.dead")
        self.run_for(8.0)
        text = str(self.failureResultOf(handling, DeadLetterFailed).value)
        self.assertEqual((got, stream.positions()), ([0, 19, 38], {0: 38}))
        self.broker.refuse = lambda part: None
        stream.handle(handler, retries=0, dead_letters="t.dead")
        self.run_for(3.0)
        self.assertEqual((got[3:], len(self.letters())), (list(range(38, 1900, 19)), 1))
        return text

    def test_a_full_disk_is_waited_for_and_then_told(self) -> None:
        """The error names the message, the topic, the time and the reason."""
        text = self.refused(StorageFull("the disk is full"))
        for part in ("'t', partition 0: the message at 38", "'t.dead'", "not within 5 seconds"):
            self.assertIn(part, text)

    def test_a_letter_that_is_too_large_is_told_at_once_with_the_remedy(self) -> None:
        """Waiting would not make it smaller."""
        self.assertIn("raise message.bytes of topic 't.dead'", self.refused(MessageTooLarge("1000001 bytes")))

    def test_a_circle_of_topics_ends_and_stops_no_handler(self) -> None:
        """A letter around ten others, as forged headers may make one, is the last: it is passed when it fails again."""
        forged = Message(b"m", headers=[("dead-letter.topic", b"t"), ("dead-letter.count", b"x")] * 10)
        around = read_letter(self.letter_of(forged, "circle"))
        self.broker.add("u")[0].data += encode_set([forged, Message(b"next")])
        (stream,) = self.consumer().create_message_streams("u", 1)
        got: list[bytes | None] = []

        def handler(message: Message) -> None:
            got.append(message.payload)
            raise ValueError("poison")

        handling = stream.handle(handler, retries=0, dead_letters="t.dead")
        self.run_for()
        self.assertNoResult(handling)
        second, first = sorted(self.letters(), key=lambda each: each.error)
        self.assertEqual((first.error, first.count, first.message), ("circle", 11, around.message))
        self.assertIn("a dead letter 10 times: the dead-letter topics form a circle, or its headers", first.text)
        self.assertIn("it failed with ValueError: poison", first.text)
        self.assertEqual((second.error, second.count), ("ValueError", 1))

        logged: list[Any] = []
        observer: Any = logged.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        self.broker.add("w")[0].data += encode_set([first.encoded(), Message(b"behind")])
        (last,) = self.consumer().create_message_streams("w", 1)
        handling = last.handle(handler, retries=0, dead_letters="t.dead")
        self.run_for()
        self.assertNoResult(handling)
        self.assertEqual(got, [b"m", b"next", b"m", b"behind"])
        self.assertEqual(sorted(each.error for each in self.letters()), ["ValueError", "ValueError", "circle"])
        (line,) = [formatEvent(each) for each in logged if "circle" in (each.get("log_format") or "")]
        self.assertIn("topic 'w', partition 0: the message at 0 has failed again, after 11 dead letters", line)
        self.assertIn("end the circle", line)

    def letter_of(self, message: Message, error: str) -> Message:
        """Return a letter around a message."""
        return DeadLetter(
            origin=_origin(), kind="message", error=error, text="", time=0, attempts=1, count=1, message=message
        ).encoded()


class DamageTests(HandlingTestCase):
    """``on_corrupt="dead-letter"``: damaged bytes are stored before reading goes on behind them."""

    def damage(self) -> bytes:
        """Damage the third message; return its bytes."""
        self.logs[0].data[38 + 12] ^= 1
        return bytes(self.logs[0].data[38:57])

    def test_the_bytes_of_a_damaged_message_are_stored(self) -> None:
        """All others come, and the loss is reported as with "skip"."""
        data = self.damage()
        stream = self.stream([0], on_corrupt="dead-letter", dead_letters="t.dead")
        messages, _ = self.read(stream)
        self.run_for(3.0)
        self.assertEqual((len(messages), stream.skipped), (99, 1))
        (letter,) = self.letters()
        self.assertEqual((letter.kind, letter.origin[:4], letter.message.payload), ("range", ("t", 0, 38, 57), data))

    def test_a_range_without_boundaries_is_named_with_its_bytes(self) -> None:
        """A length that cannot be true hides where the next message begins: the letter names all that is passed."""
        self.logs[0].data[38:42] = b"\x7f\xff\xff\xff"
        before = bytes(self.logs[0].data)
        stream = self.stream([0], on_corrupt="dead-letter", dead_letters="t.dead")
        messages, _ = self.read(stream)
        self.run_for(3.0)
        (letter,) = self.letters()
        start, end = letter.origin.start, letter.origin.end
        self.assertEqual((start, letter.message.payload), (38, before[38:end]))
        self.assertEqual(len(messages), 2 + (1900 - end) // 19)

    def test_nothing_behind_it_is_handed_over_before_it_is_stored(self) -> None:
        """While the letter cannot be written the stream stays before the damage, then fails; ``seek`` tries again."""
        self.damage()
        self.broker.add("t.dead")
        self.broker.refuse = lambda part: StorageFull("full")
        stream = self.stream([0], on_corrupt="dead-letter", dead_letters="t.dead", dead_letter_timeout=5.0)
        messages, reading = self.read(stream)
        self.run_for(3.0)
        self.assertEqual((len(messages), stream.positions()), (2, {0: 38}))
        self.run_for(6.0)
        self.failureResultOf(reading, DeadLetterFailed)
        self.broker.refuse = lambda part: None
        stream.seek(0, 38)
        messages, _ = self.read(stream)
        self.run_for(3.0)
        self.assertEqual((len(messages), len(self.letters())), (97, 1))


class GroupHandlingTests(ClientGroupTestCase):
    """Handling in a group: exactly what is handled is committed."""

    def test_a_rebalance_ends_the_retries_and_the_other_member_gets_the_message(self) -> None:
        """The message is neither passed nor a dead letter of the member that lost it; all others come."""
        one = Application(self, commit_interval=0.2)
        seen: list[tuple[int, Message]] = []

        def handler_of(number: int) -> Any:
            def handler(message: Message) -> None:
                seen.append((number, message))
                if number == 1 and (message.payload or b"").endswith(b"0003"):
                    raise ValueError("not here")

            return handler

        first = one.streams[0].handle(
            handler_of(1), retry_delay=99.0, retry_delay_limit=99.0, concurrency=4, dead_letters="d"
        )
        self.run_for(3.0)
        self.assertEqual(len(seen), 16)
        two = Application(self, commit_interval=0.2)
        two.streams[0].handle(handler_of(2), concurrency=4, dead_letters="d")
        self.run_for(5.0)
        self.assertNoResult(first)
        self.assertNotIn("d", self.broker.logs)
        by_two = [message for number, message in seen if number == 2]
        self.assertEqual(len(by_two), 2 * 47)  # from the message that failed on: nothing before it is repeated
        for partition in range(4):
            handled = [number for number, message in seen if message.partition == partition]
            self.assertIn(len(handled), (50 + 1, 4 + 1))

    def test_a_kill_while_the_letter_is_under_way_repeats_the_message(self) -> None:
        """The position is not committed before the letter is stored."""
        self.broker.add("d")
        self.broker.refuse = lambda part: StorageFull("full")
        one = Application(self, commit_interval=0.1)
        one.streams[0].handle(lambda message: 1 / 0, retries=0, concurrency=4, dead_letters="d")
        self.run_for(3.0)
        one.kill()
        self.broker.refuse = lambda part: None
        got: list[bytes] = []
        two = Application(self, commit_interval=0.1)
        two.streams[0].handle(lambda message: got.append(message.payload or b""), concurrency=4)
        self.run_for(12.0)
        self.assertEqual(sorted(got), self.everything())


def _origin() -> Any:
    from logd.client.dead_letters.letter import Origin

    return Origin("t", 0, 0, 1)
