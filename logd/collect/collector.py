"""Runs a follower, a producer and a state file on a reactor: reads while there is room, saves acknowledged marks."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Protocol

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.collect.follower import Follower, Harvest
from logd.collect.ledger import Ledger
from logd.collect.source import Piece
from logd.collect.state_file import StateFile
from logd.deferreds.sleeping import InterruptibleSleep
from logd.interfaces import Clock, Timer
from logd.protocol.message import Message

#: Seconds between two writes of the state: at most this much is sent again after a crash; a write takes 1-3 fsyncs.
SAVE_SECONDS = 1.0
#: The most pieces in flight, beside the producer's limit of bytes: each takes some hundred bytes itself.
OPEN_PIECES = 4096
#: Seconds without an acknowledgement after which a notice is given.
SILENCE_SECONDS = 10.0


class LineSender(Protocol):
    """The part of a Producer with acks -1 that the collector uses."""

    @property
    def has_room(self) -> bool: ...

    def send(
        self, topic: str, messages: list[Message], *, partition: int | None = None, key: bytes | None = None
    ) -> Deferred[Any]: ...

    def close(self, timeout: float | None = None) -> Deferred[None]: ...


#: Runs a call on another thread, one at a time, in order.
InThread = Callable[..., Deferred[Any]]


@frozen(kw_only=True)
class MessageShape:
    """The shape and destination of the messages made of lines.

    Without ``partition`` and ``spread``, all lines of a file go to one partition, chosen by its name, and so stay in
    order.
    """

    topic: str
    partition: int | None = None
    spread: bool = False
    #: Returns the key of a file's messages for its name.
    key: Callable[[str], bytes | None] = field(default=lambda _: None)
    #: Returns the timestamp of messages, in ms since the epoch, when their lines are read; None: no timestamps.
    clock: Callable[[], int] | None = None
    #: Returns the headers of a file's messages for its name.
    headers: Callable[[str], tuple[tuple[str, bytes | None], ...]] = field(default=lambda _: ())


def _route(name: str) -> bytes:
    """Return the key that chooses the partition of a file: a hash of its name.

    The partitioner takes the crc32 of a key, whose last bits are the same for names that differ in one digit.
    """
    return blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest()


class Collector:
    """Collects until it is cancelled, fails or, with ``once``, has read everything.

    ``report`` takes a notice of one line, and ``progress`` is called after each step.
    """

    def __init__(
        self,
        clock: Clock,
        in_thread: InThread,
        follower: Follower,
        sender: LineSender,
        state: StateFile,
        shape: MessageShape,
        *,
        once: bool = False,
        report: Callable[[str], None] = lambda _: None,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        self.ledger = Ledger()
        self.follower = follower
        self._clock = clock
        self._in_thread = in_thread
        self._sender = sender
        self._state = state
        self._shape = shape
        self._once = once
        self._report = report
        self._progress = progress
        self._failure: Exception | None = None
        self._saved_at = 0.0
        #: True while the last attempt to save the state has failed.
        self.unsaved = False
        #: Time of the last acknowledgement, or of the last piece sent with nothing else in flight.
        self._heard_at = 0.0
        self._silent = False
        self._sleep = InterruptibleSleep(clock)
        self._waking: Timer | None = None

    async def run(self) -> None:
        """Collect to the end, or until cancelled; then call ``close``. Raises LineTooLong and the errors of sends."""
        await self._step(False)
        await self._save()  # so that starting at the end of a file is recorded before anything is sent
        while True:
            room = self._has_room
            harvest = await self._step(room)
            for piece in harvest.pieces:
                self._send(piece)
            if self._failure is not None:
                raise self._failure
            if self._to_save and self._clock.seconds() - self._saved_at >= SAVE_SECONDS:
                await self._save()
            self._listen()
            self._progress()
            if self._once and harvest.idle and not self.ledger.open:
                return
            if not harvest.pieces:
                await self._pause(room)

    async def close(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds for messages in flight, then save what is acknowledged. Never fails."""
        await self._sender.close(timeout=timeout)
        for notice in await self._in_thread(self.follower.settle):
            self._report(notice)
        await self._save()
        if self.unsaved:
            self._report("the state is not saved: the next run sends again what was acknowledged since it was")
        await self._in_thread(self.follower.close)
        self._state.close()

    @property
    def _has_room(self) -> bool:
        return self._sender.has_room and self.ledger.open < OPEN_PIECES

    @property
    def _to_save(self) -> bool:
        return self.ledger.changed or self.follower.tracker.changed

    async def _step(self, read: bool) -> Harvest:
        harvest: Harvest = await self._in_thread(self.follower.step, read)
        for notice in harvest.notices:
            self._report(notice)
        return harvest

    def _send(self, piece: Piece) -> None:
        self.ledger.sent(piece)
        if self.ledger.open == 1:
            self._heard_at = self._clock.seconds()
        if not piece.lines:
            self._acknowledged(None, piece)
            return
        shape = self._shape
        name = piece.source.name
        key = shape.key(name)
        headers = shape.headers(name)
        now = None if shape.clock is None else shape.clock()
        messages = [Message(line, key=key, timestamp=now, headers=headers) for line in piece.lines]
        route = None if shape.spread or shape.partition is not None else key or _route(name)
        sending = self._sender.send(shape.topic, messages, partition=shape.partition, key=route)
        sending.addCallbacks(self._acknowledged, self._failed, callbackArgs=(piece,))

    def _acknowledged(self, _: object, piece: Piece) -> None:
        self.ledger.acknowledged(piece)
        self._heard_at = self._clock.seconds()
        self._rouse()

    def _failed(self, failure: Failure) -> None:
        if self._failure is None and isinstance(failure.value, Exception):
            self._failure = failure.value
        self._rouse()

    def _rouse(self) -> None:
        """End a pause in the next reactor turn, when the producer has released its room."""
        if self._sleep.can_be_woken and self._waking is None:
            self._waking = self._clock.callLater(0, self._woken)

    def _woken(self) -> None:
        self._waking = None
        self._sleep.wake()

    async def _pause(self, idle: bool) -> None:
        """Wait for the next look; without room, or with ``once``, an acknowledgement ends the pause too."""
        seconds = SAVE_SECONDS if self._to_save or self.ledger.open else self.follower.seconds_to_look
        if not self._once:
            seconds = min(seconds, self.follower.seconds_to_look)
        await self._sleep.sleep(seconds, interruptible=not idle or self._once)

    async def _save(self) -> None:
        self.ledger.changed = self.follower.tracker.changed = False
        self._saved_at = self._clock.seconds()
        try:
            await self._in_thread(lambda: self._state.save(self.follower.tracker.state))
        except OSError as error:
            self.ledger.changed = True
            if not self.unsaved:
                self._report(f"cannot save the state: {error.strerror or error}; trying again")
            self.unsaved = True
        else:
            self.unsaved = False

    def _listen(self) -> None:
        """Report that no broker acknowledges, and when one does again."""
        quiet = self._clock.seconds() - self._heard_at
        if not self.ledger.open:
            quiet = 0.0
        if quiet >= SILENCE_SECONDS and not self._silent:
            self._silent = True
            self._report(f"no broker has acknowledged anything for {quiet:.0f} seconds; waiting")
        elif quiet < SILENCE_SECONDS and self._silent:
            self._silent = False
            self._report("a broker acknowledges again")
