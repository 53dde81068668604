"""Handling of a stream's messages by a function: retries, dead letters, and progress that counts what is handled."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isasyncgen, isasyncgenfunction, isawaitable, iscoroutine, isgenerator, isgeneratorfunction
from typing import Any

import attrs
from attrs import define
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logd.backoff import Backoff
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.stream_state import StreamState
from logd.client.dead_letters.writer import DeadLetters
from logd.client.setting_checks import seconds, whole
from logd.client.settings import DAY
from logd.deferreds.sleeping import sleep
from logd.deferreds.timeouts import with_timeout
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import ConfigurationError
from logd.protocol.message import Message
from logd.topic import TopicPartition

#: Called with each message; a Deferred or coroutine that it returns is waited for.
Handler = Callable[[Message], Any]


@attrs.frozen(kw_only=True)
class HandlingSettings:
    """Settings of ``stream.handle``. Raises ConfigurationError for a value that is not allowed."""

    #: Further attempts at a message after its handler failed.
    retries: int = attrs.field(default=3, validator=whole(0, 1_000_000))
    #: Seconds before the first of these; doubled each time, with jitter ...
    retry_delay: float = attrs.field(default=0.1, validator=seconds(0.0, DAY))
    #: ... up to this.
    retry_delay_limit: float = attrs.field(default=10.0, validator=seconds(0.0, DAY))
    #: Partitions whose messages may be handled at the same time; of one partition it is always one message.
    concurrency: int = attrs.field(default=1, validator=whole(1, 100_000))
    #: Seconds after which a handler's Deferred is cancelled, which counts as a failure; 0 for no limit.
    timeout: float = attrs.field(default=0.0, validator=seconds(0.0, DAY))

    def backoff(self, random: Callable[[], float]) -> Backoff:
        """Return the delays before the retries of one message."""
        return Backoff(self.retry_delay, self.retry_delay_limit, random)


def check_handler(function: Handler) -> None:
    """Raise ConfigurationError for a function that would never run, since calling it makes a generator."""
    if isasyncgenfunction(function) or isgeneratorfunction(function):
        raise ConfigurationError(f"the handler {function!r} is a generator, which nothing would run: remove its yield")


@define(eq=False)
class BatchInWork:
    """A batch that is being handled."""

    fetch: PartitionFetch
    batch: MessageBatch
    #: The position behind the messages that are handled.
    position: int
    running: Deferred[None] | None = None
    #: The back-off of the message at hand, while it waits.
    sleeping: Deferred[None] | None = None


class Handling:
    """One call of ``stream.handle``. Each partition has one message in work; what fails stays before the position."""

    def __init__(
        self,
        state: StreamState,
        function: Handler,
        settings: HandlingSettings,
        dead_letters: DeadLetters | None,
        random: Callable[[], float],
    ) -> None:
        check_handler(function)
        self._state = state
        self._clock = state.clock
        self._function = function
        self._settings = settings
        self._dead_letters = dead_letters
        self._random = random
        self._works: dict[PartitionFetch, BatchInWork] = {}
        self._free: WaitingDeferreds[None] = WaitingDeferreds()
        self._reading: Deferred[None] | None = None
        #: The error that ends the handling, or None.
        self._error: BaseException | None = None
        #: True while the reading coroutine itself begins with a batch.
        self._starting = False
        #: True once the works under way are being cancelled.
        self._over = False

    async def run(self) -> None:
        """Handle messages until the stream is closed. Raises what ``MessageStream.handle`` fails with."""
        state = self._state
        state.begin_handling(self._interrupt)
        try:
            self._reading = _cancellable(Deferred.fromCoroutine(self._read()))
            try:
                await self._reading
            except CancelledError:
                if self._error is None:  # the caller has cancelled, not a failed message
                    raise
            while self._works and self._error is None:
                await self._free.new()
            if self._error is not None:
                raise self._error
        finally:
            self._over = True
            works = tuple(self._works.values())
            for work in works:
                if work.running is not None:
                    work.running.cancel()
            for work in works:  # now, also where a handler ends later: what is committed must not be ahead of it
                self._put_back(work)
            state.end_handling()

    async def _read(self) -> None:
        state, works = self._state, self._works
        while True:
            while len(works) >= self._settings.concurrency and not self._ending:
                await self._free.new()
            if self._ending:
                return
            batch = await state.next(state.take_rest_or_batch)
            if batch is None:
                return
            fetch = state.fetch_of(batch.topic, batch.partition)
            if fetch is None or not batch.messages:
                continue
            work = works[fetch] = BatchInWork(fetch, batch, batch.position)
            state.withhold(fetch)
            former = [each for each in works.values() if each is not work and _place(each) == _place(work)]
            self._starting = True
            work.running = Deferred.fromCoroutine(self._handle(work, [each.running for each in former]))
            work.running.addBoth(self._ended, work)
            self._starting = False

    async def _handle(self, work: BatchInWork, former: list[Deferred[None] | None]) -> None:
        for running in former:  # the partition went and came back while one of its messages was in work
            if running is not None:
                await _end_of(running)
        state = self._state
        for message in work.batch.messages:
            if not self._goes_on(work) or not await self._try(work, message):
                return
            work.position = message.next_position
            if state.fetch_of(*_place(work)) is work.fetch:
                state.handled(message)
        if self._goes_on(work):
            state.handled(work.batch)
        work.position = work.batch.next_position

    async def _try(self, work: BatchInWork, message: Message) -> bool:
        """Handle a message, in the end as a dead letter; return False if it is not this stream's to handle any more."""
        settings, attempts = self._settings, 0
        backoff = settings.backoff(self._random)
        while True:
            attempts += 1
            try:
                await self._call(message)
                return True
            except MisusedHandler:
                raise
            except Exception as error:
                if self._over:  # cancelled from outside
                    raise
                failure = error
            if not self._goes_on(work):
                return False
            if attempts > settings.retries:
                if self._dead_letters is None:
                    raise failure
                await self._dead_letters.add(message, failure, attempts)
                return True
            work.sleeping = sleep(self._clock, backoff.next())
            try:
                await work.sleeping
            except CancelledError:
                if self._goes_on(work):
                    raise
            finally:
                work.sleeping = None
            if not self._goes_on(work):
                return False

    async def _call(self, message: Message) -> None:
        result = self._function(message)
        if iscoroutine(result):
            result = Deferred.fromCoroutine(result)
        if isinstance(result, Deferred):
            if self._over:  # the function has cancelled the handling
                result.cancel()
            limit = self._settings.timeout
            await (with_timeout(self._clock, limit, result) if limit else result)
        elif isasyncgen(result) or isgenerator(result) or isawaitable(result):
            raise MisusedHandler(
                f"the handler returned {type(result).__name__}, which nothing here waits for: "
                "return a Deferred, or be an async function without yield (asyncio's are for logd.aio)"
            )

    @property
    def _ending(self) -> bool:
        return self._over or self._error is not None

    def _goes_on(self, work: BatchInWork) -> bool:
        return not self._over and not self._state.closed and self._is_current(work)

    def _is_current(self, work: BatchInWork) -> bool:
        """Return whether the partition is still the stream's, and still behind the batch: nobody has sought."""
        mine = self._state.fetch_of(*_place(work)) is work.fetch
        return mine and work.fetch.position == work.batch.next_position

    def _ended(self, result: object, work: BatchInWork) -> None:
        """Go on with the partition, or end the handling with the first error."""
        if isinstance(result, Failure) and not self._over and self._error is None:
            self._error = result.value
            if self._reading is not None and not self._starting:  # else the coroutine looks itself
                self._reading.cancel()
        del self._works[work.fetch]
        if not self._over:  # else the end has done this already, and another reader may have the stream
            self._put_back(work)
            self._state.release(work.fetch)
        self._free.fire(None)

    def _put_back(self, work: BatchInWork) -> None:
        """Let the next reader go on at the first message that is not handled."""
        if work.position < work.batch.next_position and self._is_current(work):
            self._state.seek(work.fetch.partition, work.position, work.fetch.topic)

    def _interrupt(self, where: TopicPartition | None) -> None:
        """Give up the retries of a partition that was taken away (None: of all)."""
        for work in tuple(self._works.values()):
            if work.sleeping is not None and where in (None, _place(work)):
                work.sleeping.cancel()


class MisusedHandler(ConfigurationError):
    """A handler returned something that nothing runs or waits for: an error of the program, not of a message."""


def _place(work: BatchInWork) -> tuple[str, int]:
    return work.fetch.topic, work.fetch.partition


def _cancellable(running: Deferred[None]) -> Deferred[None]:
    """Return a Deferred with the result of a coroutine, which fails at once when it is cancelled.

    To cancel the coroutine's own Deferred has no effect while the coroutine runs, such as from a function that it
    calls.
    """
    waiting: Deferred[None] = Deferred(lambda _: running.cancel())

    def ended(result: Any) -> None:
        if not waiting.called:
            waiting.callback(result)  # a Failure fails it

    running.addBoth(ended)
    return waiting


def _end_of(running: Deferred[None]) -> Deferred[None]:
    """Return a Deferred that fires when ``running`` has ended, however; cancelling it stops only the waiting."""
    waiting: Deferred[None] = Deferred()

    def ended(result: Any) -> Any:
        if not waiting.called:
            waiting.callback(None)
        return result

    running.addBoth(ended)
    return waiting
