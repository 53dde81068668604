"""Puts a follower, a producer and a state file on a reactor: reads while there is room, saves what is acknowledged."""

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

#: Seconds between two writes of the state: what is repeated after a crash, and an fsync or three.
SAVE_SECONDS = 1.0
#: Pieces that may be on their way, besides the producer's bound of bytes: each costs some hundred bytes of its own.
OPEN_PIECES = 4096
#: Seconds without an acknowledgement after which a person is told.
SILENCE_SECONDS = 10.0


class LineSender(Protocol):
    """What is needed of a Producer, whose acks are -1."""

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
    """How lines become messages, and where they go.

    Without ``partition``, and unless ``spread``, all lines of one file go to the partition that its name chooses, and
    so stay in order.
    """

    topic: str
    partition: int | None = None
    spread: bool = False
    #: The key of a file's messages, by its name.
    key: Callable[[str], bytes | None] = field(default=lambda _: None)
    #: The time of messages, in ms since the epoch, when their lines are read; None: they have no time.
    clock: Callable[[], int] | None = None
    #: Headers of a file's messages, by its name.
    headers: Callable[[str], tuple[tuple[str, bytes | None], ...]] = field(default=lambda _: ())


def _route(name: str) -> bytes:
    """What chooses the partition of a file. Not its name, whose crc32 is what a partitioner looks at: names that differ
    in one digit would all have the same last bits."""
    return blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest()


class Collector:
    """Runs until it is cancelled, has read everything (a follower that reads once), or fails.

    ``report`` takes a line for a person, ``progress`` is called after each step.
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
        self._save_failed = False
        #: When something was last acknowledged, or sent with nothing else on its way.
        self._heard_at = 0.0
        self._silent = False
        self._sleep = InterruptibleSleep(clock)
        self._waking: Timer | None = None

    async def run(self) -> None:
        """Collect. Raises what a send failed with, and LineTooLong. Cancelling ends it; ``close`` has to follow."""
        await self._step(False)
        await self._save()  # where a file is begun at its end, that is known before anything is sent
        while True:
            room = self._has_room
            harvest = await self._step(room)
            for piece in harvest.pieces:
                self._send(piece)
            if self._failure is not None:
                raise self._failure
            if self._unsaved and self._clock.seconds() - self._saved_at >= SAVE_SECONDS:
                await self._save()
            self._listen()
            self._progress()
            if self._once and harvest.idle and not self.ledger.open:
                return
            if not harvest.pieces:
                await self._pause(room)

    async def close(self, timeout: float) -> None:
        """Wait for at most ``timeout`` seconds for what is on its way, then keep what is acknowledged. Never fails."""
        await self._sender.close(timeout=timeout)
        await self._save()
        await self._in_thread(self.follower.close)
        self._state.close()

    @property
    def _has_room(self) -> bool:
        return self._sender.has_room and self.ledger.open < OPEN_PIECES

    @property
    def _unsaved(self) -> bool:
        return self.ledger.changed or self.follower.catalogue.changed

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
        """End a pause, once whoever acknowledges is through: only then there is room."""
        if self._sleep.can_be_woken and self._waking is None:
            self._waking = self._clock.callLater(0, self._woken)

    def _woken(self) -> None:
        self._waking = None
        self._sleep.wake()

    async def _pause(self, idle: bool) -> None:
        """Wait for the next look; if there was no room, or everything is read that is to be, for an answer too."""
        seconds = SAVE_SECONDS if self._unsaved or self.ledger.open else self.follower.seconds_to_look
        if not self._once:
            seconds = min(seconds, self.follower.seconds_to_look)
        await self._sleep.sleep(seconds, interruptible=not idle or self._once)

    async def _save(self) -> None:
        self.ledger.changed = self.follower.catalogue.changed = False
        self._saved_at = self._clock.seconds()
        try:
            await self._in_thread(lambda: self._state.save(self.follower.catalogue.state))
        except OSError as error:
            self.ledger.changed = True
            if not self._save_failed:
                self._report(f"the state cannot be saved: {error.strerror or error}; trying again")
            self._save_failed = True
        else:
            self._save_failed = False

    def _listen(self) -> None:
        """Say that no broker answers, and that one does again."""
        quiet = self._clock.seconds() - self._heard_at
        if not self.ledger.open:
            quiet = 0.0
        if quiet >= SILENCE_SECONDS and not self._silent:
            self._silent = True
            self._report(f"nothing was acknowledged for {quiet:.0f} seconds; waiting")
        elif quiet < SILENCE_SECONDS and self._silent:
            self._silent = False
            self._report("acknowledged again")
