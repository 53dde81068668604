"""Tests of logd.collect.collector on a clock, with a producer and a state file that a test controls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.collect.collector import OPEN_PIECES, Collector, MessageShape
from logd.collect.cutting import LineTooLong, Rules
from logd.collect.follower import Follower, FollowSettings
from logd.collect.state import State, decode_state, encode_state
from logd.errors import MessageTooLarge
from logd.protocol.message import Message
from tests.collect.doubles import MemoryDisk


class FakeSender:
    """A producer that keeps its messages unanswered until ``answer``."""

    def __init__(self) -> None:
        self.has_room = True
        self.sent: list[tuple[list[Message], int | None, bytes | None]] = []
        self.waiting: list[Deferred[Any]] = []
        self.closed: float | None = None

    def send(
        self, topic: str, messages: list[Message], *, partition: int | None = None, key: bytes | None = None
    ) -> Deferred[Any]:
        """Keep the messages, as Producer.send would take them."""
        self.sent.append((messages, partition, key))
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def answer(self, count: int | None = None) -> None:
        """Acknowledge the first ``count`` sends, or all."""
        answered, self.waiting = self.waiting[:count], self.waiting[len(self.waiting[:count]) :]
        for each in answered:
            each.callback(None)

    def close(self, timeout: float | None = None) -> Deferred[None]:
        """Note the timeout, as Producer.close gets it."""
        self.closed = timeout
        return succeed(None)

    @property
    def lines(self) -> list[bytes | None]:
        """The payloads that were sent."""
        return [message.payload for messages, _, _ in self.sent for message in messages]


class FakeState:
    """A state file in memory."""

    def __init__(self) -> None:
        self.saved: list[bytes] = []
        self.error: OSError | None = None
        self.closed = False

    def save(self, state: State) -> None:
        """Keep the state, as StateFile does, or raise ``error``."""
        if self.error is not None:
            raise self.error
        self.saved.append(encode_state("t", state))

    def close(self) -> None:
        """Note the call, as StateFile would close."""
        self.closed = True

    @property
    def positions(self) -> list[int]:
        """The positions in the state that was saved last."""
        return [source.mark.position for source in decode_state(self.saved[-1], "t").sources]


def in_thread(call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
    """Run a call at once, in place of a thread."""
    result: Deferred[Any] = Deferred()
    try:
        result.callback(call(*arguments))
    except Exception:
        result.errback()
    return result


class CollectorTests(SynchronousTestCase):
    """``Collector``."""

    def setUp(self) -> None:
        """Make a disk with one file."""
        self.disk = MemoryDisk()
        self.clock = Clock()
        self.sender = FakeSender()
        self.state = FakeState()
        self.reports: list[str] = []
        self.disk.append("/l/a.log", b"one\ntwo\n")

    def begin(self, shape: MessageShape | None = None, **options: Any) -> Deferred[None]:
        """Run a collector; the Deferred fires with its end."""
        settings = FollowSettings(patterns=["/l/*"], rules=options.pop("rules", Rules(100)), **options)
        self.collector = Collector(
            self.clock,
            in_thread,
            Follower(self.disk, self.clock.seconds, settings),
            self.sender,
            self.state,  # type: ignore[arg-type]  # it has what is needed
            shape or MessageShape(topic="t"),
            once=settings.once,
            report=self.reports.append,
        )
        return Deferred.fromCoroutine(self.collector.run())

    def test_only_acknowledged_lines_are_saved_as_read(self) -> None:
        """After a crash everything else is sent again; an unchanged state is not written again."""
        running = self.begin()
        self.assertEqual(self.sender.lines, [b"one", b"two"])
        self.clock.advance(1)
        self.assertEqual(self.state.positions, [0])
        self.disk.append("/l/a.log", b"three\n")
        self.clock.pump([0.5] * 4)
        self.sender.answer(1)
        self.clock.pump([0.5] * 4)
        self.assertEqual((self.sender.lines[2:], self.state.positions), ([b"three"], [8]))
        self.sender.answer()
        self.clock.pump([0.5] * 4)
        self.assertEqual(self.state.positions, [14])
        count = len(self.state.saved)
        self.clock.pump([0.5] * 10)
        self.assertEqual(len(self.state.saved), count)
        self.assertNoResult(running)

    def test_the_position_waits_for_earlier_pieces(self) -> None:
        """Spread over partitions, a later piece may be acknowledged first."""
        self.begin(MessageShape(topic="t", spread=True))
        self.disk.append("/l/a.log", b"three\n")
        self.clock.pump([0.5] * 4)
        self.assertEqual([key for _, _, key in self.sender.sent], [None, None])
        self.sender.waiting.pop().callback(None)
        self.clock.pump([0.5] * 4)
        self.assertEqual(self.state.positions, [0])
        self.sender.answer()
        self.clock.pump([0.5] * 4)
        self.assertEqual(self.state.positions, [14])

    def test_a_full_producer_stops_reading(self) -> None:
        """Reading goes on at once when there is room."""
        self.sender.has_room = False
        self.begin()
        self.clock.pump([1.0] * 5)
        self.assertEqual(self.sender.sent, [])
        self.sender.has_room = True
        self.clock.advance(1)
        self.assertEqual(len(self.sender.sent), 1)
        self.disk.append("/l/a.log", b"three\n")
        self.sender.has_room = False
        self.clock.pump([1.0] * 3)
        self.assertEqual(len(self.sender.sent), 1)
        self.sender.has_room = True
        self.sender.answer()
        self.clock.advance(0)
        self.assertEqual(len(self.sender.sent), 2)

    def test_small_pieces_are_bounded_in_number(self) -> None:
        """Bytes alone would allow a great many of them."""
        for number in range(OPEN_PIECES + 500):
            self.disk.append(f"/l/{number}", b"x\n")
        self.begin()
        self.clock.pump([1.0] * 5)
        self.assertLess(len(self.sender.sent), OPEN_PIECES + 300)
        self.sender.answer()
        self.clock.pump([0.0] * 5)
        self.assertEqual(len(self.sender.sent), OPEN_PIECES + 501)

    def test_messages_have_the_shape_asked_for(self) -> None:
        """By default the lines of a file go to one partition together, without a key in the message."""
        self.disk.append("/l/b.log", b"x\n")
        shapes: tuple[tuple[dict[str, Any], Message, int | None], ...] = (
            ({}, Message(b"one"), None),
            ({"partition": 3}, Message(b"one"), 3),
            ({"key": str.encode}, Message(b"one", key=b"/l/a.log"), None),
            (
                {"headers": lambda name: (("file", name.encode()),)},
                Message(b"one", headers=[("file", b"/l/a.log")]),
                None,
            ),
        )
        for options, message, partition in shapes:
            self.sender = FakeSender()
            self.begin(MessageShape(topic="t", **options))
            (first, to, route), (_, _, other) = self.sender.sent
            self.assertEqual((first[0], to), (message, partition))
            self.assertEqual(route is None, partition is not None)
            if "key" in options:
                self.assertEqual(route, b"/l/a.log")
            elif partition is None:
                self.assertNotEqual(route, other)

    def test_a_single_pass_ends_when_all_is_acknowledged(self) -> None:
        """Closing saves the state and closes every file."""
        running = self.begin(once=True)
        self.clock.pump([1.0] * 5)
        self.assertNoResult(running)
        self.sender.answer()
        self.clock.advance(0)
        self.assertIsNone(self.successResultOf(running))
        closing = Deferred.fromCoroutine(self.collector.close(7.0))
        self.successResultOf(closing)
        self.assertEqual((self.state.positions, self.state.closed, self.sender.closed), ([8], True, 7.0))
        self.assertEqual(self.disk.open_now, 0)

    def test_a_failed_send_ends_the_collector(self) -> None:
        """The position stays in front of it, so the next start sends it again."""
        running = self.begin()
        self.sender.waiting.pop().errback(MessageTooLarge("too large"))
        self.clock.advance(1)
        self.failureResultOf(running, MessageTooLarge)
        self.successResultOf(Deferred.fromCoroutine(self.collector.close(1.0)))
        self.assertEqual(self.state.positions, [0])

    def test_a_line_too_long_ends_the_collector(self) -> None:
        """The policy "fail" asks for that."""
        self.failureResultOf(self.begin(rules=Rules(2, "fail")), LineTooLong)

    def test_a_cancelled_collector_stops_reading(self) -> None:
        """Lines that are acknowledged while it closes are saved."""
        running = self.begin()
        running.cancel()
        self.failureResultOf(running, CancelledError)
        self.sender.answer()
        self.successResultOf(Deferred.fromCoroutine(self.collector.close(1.0)))
        self.assertEqual(self.state.positions, [8])

    def test_the_state_keeps_a_gone_file_until_its_lines_are_acknowledged(self) -> None:
        """After a crash they would otherwise be lost, and no run would tell."""
        self.begin()
        self.disk.remove("/l/a.log")
        self.clock.pump([1.0] * 60)
        self.assertEqual(self.state.positions, [0])
        self.sender.answer()
        self.clock.pump([1.0] * 3)
        self.assertEqual((self.state.positions, self.disk.open_now), ([], 0))
        self.assertEqual(self.collector.follower.tracker.losses, 0)

    def test_the_state_keeps_a_gone_file_that_was_not_read_to_its_end(self) -> None:
        """The unread lines are lost and told at once, but those in flight are not lost yet."""
        self.begin(open_files=1)
        self.sender.has_room = False
        self.disk.append("/l/a.log", b"three\n")
        self.disk.append("/l/b.log", b"other\n")
        self.clock.pump([1.0] * 3)
        tracker = self.collector.follower.tracker
        self.disk.remove("/l/a.log")
        self.clock.pump([1.0] * 60)
        self.assertEqual((tracker.losses, tracker.lost, self.state.positions), (1, 6, [0, 0]))
        restored = decode_state(self.state.saved[-1], "t").sources
        self.assertEqual([source.sound_size for source in restored], [8, 6])
        self.sender.answer()
        self.clock.pump([1.0] * 3)
        self.assertEqual((tracker.losses, tracker.lost, self.state.positions), (1, 6, [0]))

    def test_lines_of_a_gone_file_that_are_never_acknowledged_are_lost(self) -> None:
        """It was emptied, and no run can send them again."""
        running = self.begin()
        self.disk.truncate("/l/a.log")
        self.disk.append("/l/a.log", b"new\n")
        self.clock.pump([1.0] * 3)
        running.cancel()
        self.failureResultOf(running, CancelledError)
        tracker = self.collector.follower.tracker
        self.assertEqual((self.sender.lines, tracker.losses), ([b"one", b"two", b"new"], 0))
        self.successResultOf(Deferred.fromCoroutine(self.collector.close(1.0)))
        self.assertEqual((tracker.losses, tracker.lost, self.state.positions), (1, 8, [0]))
        self.assertIn("/l/a.log: 8 bytes that were sent before the file", self.reports[-1])

    def test_a_silent_broker_is_reported_once(self) -> None:
        """The broker's return is reported, too."""
        self.begin()
        self.clock.pump([1.0] * 30)
        self.assertEqual(self.reports, ["no broker has acknowledged anything for 10 seconds; waiting"])
        self.sender.answer()
        self.clock.pump([1.0] * 30)
        self.assertEqual(self.reports[1:], ["a broker acknowledges again"])

    def test_collecting_goes_on_without_a_saved_state(self) -> None:
        """The failure is reported once, and saving is tried again."""
        self.state.error = OSError(28, "No space left on device")
        self.begin()
        self.sender.answer()
        self.clock.pump([1.0] * 5)
        self.assertEqual(self.reports, ["cannot save the state: No space left on device; trying again"])
        self.state.error = None
        self.clock.pump([1.0] * 2)
        self.assertEqual((self.state.positions, self.collector.unsaved), ([8], False))

    def test_an_end_without_a_saved_state_is_told(self) -> None:
        """It is no success: the next run would send the same lines again."""
        running = self.begin(once=True)
        self.state.error = OSError(28, "No space left on device")
        self.sender.answer()
        self.clock.advance(0)
        self.successResultOf(running)
        self.assertFalse(self.collector.unsaved)
        self.successResultOf(Deferred.fromCoroutine(self.collector.close(1.0)))
        self.assertTrue(self.collector.unsaved)
        self.assertIn("the state is not saved: the next run sends again", self.reports[-1])
