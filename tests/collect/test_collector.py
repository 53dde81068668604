"""Tests of collecting on a clock, with a producer and a state file that obey."""

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
from tests.collect.memory import MemoryDisk


class FakeSender:
    """A producer: keeps what it is given until ``answer``."""

    def __init__(self) -> None:
        self.has_room = True
        self.sent: list[tuple[list[Message], int | None, bytes | None]] = []
        self.waiting: list[Deferred[Any]] = []
        self.closed: float | None = None

    def send(
        self, topic: str, messages: list[Message], *, partition: int | None = None, key: bytes | None = None
    ) -> Deferred[Any]:
        """See Producer."""
        self.sent.append((messages, partition, key))
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def answer(self, count: int | None = None) -> None:
        """Acknowledge the first so many."""
        answered, self.waiting = self.waiting[:count], self.waiting[len(self.waiting[:count]) :]
        for each in answered:
            each.callback(None)

    def close(self, timeout: float | None = None) -> Deferred[None]:
        """See Producer."""
        self.closed = timeout
        return succeed(None)

    @property
    def lines(self) -> list[bytes | None]:
        """What was sent."""
        return [message.payload for messages, _, _ in self.sent for message in messages]


class FakeState:
    """A state file."""

    def __init__(self) -> None:
        self.saved: list[bytes] = []
        self.error: OSError | None = None
        self.closed = False

    def save(self, state: State) -> None:
        """See StateFile."""
        if self.error is not None:
            raise self.error
        self.saved.append(encode_state("t", state))

    def close(self) -> None:
        """See StateFile."""
        self.closed = True

    @property
    def positions(self) -> list[int]:
        """What was saved last."""
        return [source.mark.position for source in decode_state(self.saved[-1], "t").sources]


def in_thread(call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
    """Run at once."""
    result: Deferred[Any] = Deferred()
    try:
        result.callback(call(*arguments))
    except Exception:
        result.errback()
    return result


class CollectorTests(SynchronousTestCase):
    """Collector."""

    def setUp(self) -> None:
        """Make a disk with one file."""
        self.disk = MemoryDisk()
        self.clock = Clock()
        self.sender = FakeSender()
        self.state = FakeState()
        self.reports: list[str] = []
        self.disk.append("/l/a.log", b"one\ntwo\n")

    def begin(self, shape: MessageShape | None = None, **options: Any) -> Deferred[None]:
        """Run a collector."""
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

    def test_saves_what_is_acknowledged(self) -> None:
        """A state never says more than what was acknowledged, and says that soon."""
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

    def test_out_of_order(self) -> None:
        """Spread over partitions, what is acknowledged first may be later in the file: the place waits for the gap."""
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

    def test_back_pressure(self) -> None:
        """Without room nothing is read; once there is some reading goes on at once."""
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

    def test_many_pieces(self) -> None:
        """Small pieces are bounded by their number."""
        for number in range(OPEN_PIECES + 500):
            self.disk.append(f"/l/{number}", b"x\n")
        self.begin()
        self.clock.pump([1.0] * 5)
        self.assertLess(len(self.sender.sent), OPEN_PIECES + 300)
        self.sender.answer()
        self.clock.pump([0.0] * 5)
        self.assertEqual(len(self.sender.sent), OPEN_PIECES + 501)

    def test_shapes(self) -> None:
        """Keys, headers and partitions are as asked; by default a file's lines go one way together, without a key."""
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

    def test_once(self) -> None:
        """Asked for once it ends when all is acknowledged."""
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

    def test_fails(self) -> None:
        """What a send fails with ends it, and is not remembered as sent."""
        running = self.begin()
        self.sender.waiting.pop().errback(MessageTooLarge("too large"))
        self.clock.advance(1)
        self.failureResultOf(running, MessageTooLarge)
        self.successResultOf(Deferred.fromCoroutine(self.collector.close(1.0)))
        self.assertEqual(self.state.positions, [0])

    def test_too_long(self) -> None:
        """A line that may not be so long ends it."""
        self.failureResultOf(self.begin(rules=Rules(2, "fail")), LineTooLong)

    def test_cancelled(self) -> None:
        """Cancelled it stops reading; what is acknowledged while it closes is kept."""
        running = self.begin()
        running.cancel()
        self.failureResultOf(running, CancelledError)
        self.sender.answer()
        self.successResultOf(Deferred.fromCoroutine(self.collector.close(1.0)))
        self.assertEqual(self.state.positions, [8])

    def test_silence(self) -> None:
        """That nothing is acknowledged for long is said once, and that something is again."""
        self.begin()
        self.clock.pump([1.0] * 30)
        self.assertEqual(self.reports, ["no broker has acknowledged anything for 10 seconds; waiting"])
        self.sender.answer()
        self.clock.pump([1.0] * 30)
        self.assertEqual(self.reports[1:], ["a broker acknowledges again"])

    def test_state_cannot_be_saved(self) -> None:
        """Collecting goes on, it is said once, and tried again."""
        self.state.error = OSError(28, "No space left on device")
        self.begin()
        self.sender.answer()
        self.clock.pump([1.0] * 5)
        self.assertEqual(self.reports, ["cannot save the state: No space left on device; trying again"])
        self.state.error = None
        self.clock.pump([1.0] * 2)
        self.assertEqual(self.state.positions, [8])
