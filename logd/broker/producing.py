"""Produce requests of one connection: checked, gathered, appended, and answered when what they asked for is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from attrs import define, field
from twisted.logger import Logger
from zope.interface import implementer

from logd.broker.appending import Appender
from logd.broker.checking import AT_ONCE_BYTES, SetChecks
from logd.broker.routing import CreationNeeded, Routing
from logd.errors import (
    BrokerStopping,
    InvalidRequest,
    PipelineBroken,
    RequestTimedOut,
    UnknownError,
    UnknownTopic,
    WireError,
)
from logd.interfaces import IFlushListener, Timer
from logd.log.partition import PartitionLog
from logd.log.waiters import Wait
from logd.protocol import loops
from logd.protocol.legacy_requests import Produce
from logd.protocol.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart, ProducePart

#: Milliseconds; a request may not park itself on the broker for longer.
LONGEST_WAIT_MS = 300_000
#: Partitions, as a connection named them, of which it is remembered that a set was refused.
MOST_BROKEN = 10_000


class ProducerCutOff(Exception):
    """The connection closes for a refused produce of 0.7: nothing more of it may be taken."""


@define(eq=False)
class Producing:
    """The produce requests of one connection."""

    _log = Logger()

    _routing: Routing
    _peer: str
    #: Sends the response to the request of a token.
    _answer: Callable[[Any, ProduceAckResponse], None]
    #: Closes the connection, for a reason.
    _close: Callable[[str], None]
    #: Whether a refused produce of 0.7 closes the connection (``legacy.refused.close``).
    _closes: bool = False
    _appender: Appender = field(init=False)
    checks: SetChecks = field(init=False)
    #: (topic, partition as asked) of which a set was refused: later ones are refused until the producer restarts.
    _broken: set[tuple[str, int]] = field(factory=set, init=False)
    _pending: dict[_PendingAnswer, None] = field(factory=dict, init=False)
    _not_created: dict[str, WireError] = field(factory=dict, init=False)
    _refused: int = field(default=0, init=False)
    stopping: bool = False

    def __attrs_post_init__(self) -> None:
        self._appender = Appender(self._routing.counters)
        self.checks = SetChecks(self._routing.clock)

    def produce(self, topic: str, partition: int, message_set: bytes) -> None:
        """A produce of 0.7: no answer; what is bad is refused, counted and logged.

        May raise CreationNeeded or CheckNeeded; ProducerCutOff when it was refused and that closes the connection.
        """
        try:
            log = self._routing.logs.log(topic, partition)
            if log is None or log.offline is not None:
                log = self._log_for(topic, partition)
            if len(message_set) > AT_ONCE_BYTES or self.checks.known:
                self.checks.put_off([(message_set, log.settings.message_bytes)])
                count, newest = self.checks.check(message_set, log.settings.message_bytes)
            else:
                count, newest = loops.check_set(message_set, log.settings.message_bytes)
        except WireError as error:
            if self._closes:
                self._routing.counters.refuse(error)
                self._cut_off(error, topic, partition)
                raise ProducerCutOff from None
            self._refuse(topic, partition, error)
            return
        self._appender.add(log, message_set, count, newest)

    def produce_ack(self, request: ProduceAck, token: Any) -> None:
        """A produce of ours, to be answered under ``token``.

        May raise CreationNeeded or CheckNeeded, before anything of the request was done.
        """
        if not self.stopping:
            for part in request.parts:
                if self._routing.topics.get(part.topic) is None:
                    self.check_creation(part.topic, part.partition)
            self.put_off(request.parts)
        # It may wait for a slow disk, so it does not know the request: sets are kept until they are appended.
        count = len(request.parts)
        answer = _PendingAnswer(
            token, request.acks, request.timeout_ms, self._answered, self._mark_broken, [None] * count, count
        )
        for index, part in enumerate(request.parts):
            try:
                self._take_part(request, answer, index, part)
            except WireError as error:
                self._part_failed(answer, index, part, error)
        if not request.parts:
            self._answered(answer)
        elif answer.left:
            self._pending[answer] = None

    def check_creation(self, topic: str, partition: int) -> None:
        """Raise CreationNeeded when a produce there would."""
        with suppress(WireError):
            self._log_for(topic, partition)

    def put_off(self, parts: Sequence[ProducePart | Produce]) -> None:
        """Raise CheckNeeded when these sets of one request are too much to be checked at once."""
        if sum([len(part.message_set) for part in parts]) > AT_ONCE_BYTES:
            limits = [(part.message_set, self._limit(part.topic, part.partition)) for part in parts]
            self.checks.put_off([(message_set, limit) for message_set, limit in limits if limit is not None])

    def _limit(self, topic: str, partition: int) -> int | None:
        """The limit on messages there, None for no such place; partition -1 has no turn for it."""
        if partition == -1:
            entry = self._routing.topics.get(topic)
            partition = min(entry.partitions, default=-1) if entry is not None else -1
        log = self._routing.logs.log(topic, partition)
        return None if log is None else log.settings.message_bytes

    def creation_failed(self, topic: str, error: WireError) -> None:
        """Refuse what asks for this topic, until ``creations_settled``, instead of raising CreationNeeded again."""
        self._not_created[topic] = error

    def creations_settled(self) -> None:
        """The request that asked for topics, or was put off, is dealt with."""
        self._not_created.clear()
        self.checks.clear()

    def append(self) -> None:
        """Append what the calls since the last one have brought."""
        for error in self._appender.append():
            if self._closes:
                self._cut_off(error)
            else:
                self._report(error)

    def lost(self) -> None:
        """The connection is gone: what was appended stays, nobody is told."""
        self.checks.stop()
        pending, self._pending = self._pending, {}
        for answer in pending:
            answer.forget()

    def _log_for(self, topic: str, partition: int) -> PartitionLog:
        try:
            return self._routing.log_for(topic, partition)
        except CreationNeeded:
            if topic in self._not_created:
                raise self._not_created[topic] from None
            raise

    def _take_part(self, request: ProduceAck, answer: _PendingAnswer, index: int, part: ProducePart) -> None:
        key = (part.topic, part.partition)
        if self.stopping:
            raise BrokerStopping("the broker is stopping")
        if part.restart:
            self._broken.discard(key)
        elif key in self._broken:
            raise PipelineBroken(f"an earlier set of {part.topic}-{part.partition} was refused on this connection")
        if request.acks < -1:
            raise InvalidRequest(f"acks {request.acks} is not allowed: -1, 0, 1 or a number of copies")
        try:
            log = self._log_for(part.topic, part.partition)
        except CreationNeeded:
            raise UnknownTopic(f"there is no topic {part.topic!r}") from None
        log.leadership.check_produce(part.leader_epoch, request.acks)
        count, newest = self.checks.check(part.message_set, log.settings.message_bytes)

        def appended(first: int, after: int) -> None:
            result = ProducedPart(part.topic, part.partition, 0, log.partition, first, after)
            if request.acks == -1 and log.visible_end < after:
                answer.wait(self._routing, log, after, index, result)
            else:
                answer.settle(index, result)

        def not_appended(error: BaseException) -> None:
            self._part_failed(answer, index, part, error)

        self._appender.add_told(log, part.message_set, count, newest, appended, not_appended)

    def _mark_broken(self, topic: str, partition: int) -> None:
        self._broken.add((topic, partition))
        if len(self._broken) > MOST_BROKEN:
            self._close(f"its sets for {len(self._broken)} different partitions were refused")

    def _part_failed(self, answer: _PendingAnswer, index: int, part: ProducePart, error: BaseException) -> None:
        if answer.acks != 0:
            self._mark_broken(part.topic, part.partition)
        self._refuse(part.topic, part.partition, error)
        code = error.code if isinstance(error, WireError) else UnknownError.code
        answer.settle(index, ProducedPart(part.topic, part.partition, code, -1, -1, -1))

    def _answered(self, answer: _PendingAnswer) -> None:
        self._pending.pop(answer, None)
        if answer.acks != 0:
            self._answer(answer.token, ProduceAckResponse(tuple([part for part in answer.results if part is not None])))

    def _refuse(self, topic: str, partition: int, error: BaseException) -> None:
        self._routing.counters.refuse(error)
        if not isinstance(error, PipelineBroken):
            self._report(error, topic, partition)

    def _cut_off(self, error: BaseException, topic: str = "?", partition: int = -1) -> None:
        self._close(
            f"its message set for topic {topic!r}, partition {partition}, was refused ({error}), and "
            "legacy.refused.close = true closes the connection of a refused produce of 0.7"
        )

    def _report(self, error: BaseException, topic: str = "?", partition: int = -1) -> None:
        """Log a refusal, at the first, second, fourth, eighth ... of a connection: a flood must not fill the disk."""
        self._refused += 1
        if self._refused & (self._refused - 1) == 0:
            self._log.warn(
                "refused a message set of {peer} for topic {topic!r}, partition {partition}: {error} "
                "({refused} so far)",
                peer=self._peer,
                topic=topic,
                partition=partition,
                error=str(error),
                refused=self._refused,
            )


@define(eq=False)
class _PendingAnswer:
    """A ProduceAck that is answered when each of its parts is settled."""

    token: Any
    acks: int
    _timeout_ms: int
    _answered: Callable[[_PendingAnswer], None]
    _mark_broken: Callable[[str, int], None]
    results: list[ProducedPart | None]
    left: int
    #: The parts that wait for a flush, by their index.
    _waiting: dict[int, _Flushed] = field(factory=dict, init=False)
    _timer: Timer | None = field(default=None, init=False)

    def settle(self, index: int, result: ProducedPart) -> None:
        """One part is done, well or not."""
        self._waiting.pop(index, None)
        self.results[index] = result
        self.left -= 1
        if not self.left:
            self._stop_timer()
            self._answered(self)

    def wait(self, routing: Routing, log: PartitionLog, after: int, index: int, result: ProducedPart) -> None:
        """Settle the part once the log is flushed up to ``after``."""
        if self._timer is None and self._timeout_ms > 0:
            self._timer = routing.clock.callLater(min(self._timeout_ms, LONGEST_WAIT_MS) / 1000, self._time_out)
        waiting = _Flushed(self, index, result)
        self._waiting[index] = waiting
        waiting.wait = log.wait_visible(after, waiting)
        routing.due_now(log)

    def forget(self) -> None:
        """Stop waiting."""
        self._stop_timer()
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.cancel()

    def fail(self, index: int, asked: ProducedPart, error: BaseException) -> None:
        """One part was appended and will never be flushed: those behind it have to wait for it to be sent again."""
        self._mark_broken(asked.topic, asked.partition)
        code = error.code if isinstance(error, WireError) else UnknownError.code
        self.settle(index, ProducedPart(asked.topic, asked.partition, code))

    def _time_out(self) -> None:
        self._timer = None
        for index, waiting in list(self._waiting.items()):
            waiting.cancel()
            asked = waiting.result
            self.settle(index, ProducedPart(asked.topic, asked.partition, RequestTimedOut.code))

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


@implementer(IFlushListener)
@define(eq=False)
class _Flushed:
    """Listens for the flush of one part."""

    _answer: _PendingAnswer
    _index: int
    #: What is answered once the part is flushed.
    result: ProducedPart
    #: None where the log did not have to wait.
    wait: Wait | None = field(default=None, init=False)

    def visible(self, end: int) -> None:
        self._answer.settle(self._index, self.result)

    def failed(self, error: BaseException) -> None:
        self._answer.fail(self._index, self.result, error)

    def cancel(self) -> None:
        """Listen no more."""
        if self.wait is not None:
            self.wait.cancel()
