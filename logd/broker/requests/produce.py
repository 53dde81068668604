"""The produce requests of one connection: their shared state, and the fast path without a request object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.flush_waits import LoneFlush, code_of
from logd.broker.latency.histograms import Histogram
from logd.broker.requests.appender import Appender
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.produce_request import (
    AcknowledgedProduceRequest,
    ProduceRequest,
    SilentProduceRequest,
)
from logd.broker.requests.sliced_checks import AT_ONCE_BYTES
from logd.broker.routing import Routing
from logd.broker.security.rights import Rights
from logd.broker.topics.stored_end_gate import StoredEndGate
from logd.checkedjson import excerpt
from logd.deadlines import Deadlines
from logd.deferreds.fair_turns import FairTurns
from logd.errors import PipelineBroken, UnknownError, UnknownTopic, WireError
from logd.log.partition import PartitionLog
from logd.log.store.batch_format import BatchFormat
from logd.net.server import Connection
from logd.net.session import PauseReason
from logd.protocol import loops
from logd.protocol.batch_layout import NO_LEADER_EPOCH, set_with_leader_epoch
from logd.protocol.requests.legacy_requests import JoinedProduces, MultiProduce, Produce
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart, ProducePart
from logd.security.access_rules import Operation
from logd.topic import LONGEST_TOPIC_NAME

#: The most partitions for which a connection remembers that a set was refused.
MOST_BROKEN = 10_000


class ProducerCutOff(Exception):
    """Raised when a refused produce of 0.7 closes its connection: no further request of it may be taken."""


def _time_out(request: AcknowledgedProduceRequest | LoneFlush) -> None:
    request.time_out()


@define(eq=False)
class ProduceRequests:
    """The produce requests of one connection, in their order.

    A request that has to wait is kept in ``waiting``. The connection is paused meanwhile, keeps the request at the head
    of its backlog, and calls ``resume`` here first when it resumes.
    """

    _log = Logger()

    _broker: BrokerCore
    connection: Connection
    _rights: Rights
    routing: Routing = field(init=False)
    #: Logs that may not grow now.
    growth: StoredEndGate = field(init=False)
    appender: Appender = field(init=False)
    _batch_format: BatchFormat = field(init=False)
    #: The started request that waits before its sets are gathered; nearly always None.
    waiting: ProduceRequest | None = field(default=None, init=False)
    #: Requests whose sets are gathered or appended, but that are not answered yet.
    unanswered: Deadlines[AcknowledgedProduceRequest | LoneFlush] = field(init=False)
    #: Each (topic, requested partition) with a refused set: later sets are refused until the producer restarts.
    broken: set[tuple[str, int]] = field(factory=set, init=False)
    _not_created: dict[str, WireError] = field(factory=dict, init=False)
    #: The error of the last attempt to raise the data directory's format for batches.
    _format_error: WireError | None = field(default=None, init=False)
    #: Topic, partition, log and its limits of the last Produce of 0.7. Until the next write nothing changes them.
    _last: tuple[str, int, PartitionLog, tuple[int, int, bool]] | None = field(default=None, init=False)
    _refused: int = field(default=0, init=False)
    #: The time when the requests that are taken now came, and the histogram of acknowledged produce requests.
    arrived: float = field(default=0.0, init=False)
    latency: Histogram = field(init=False)
    stopping: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.routing, self.growth = self._broker.routing, self._broker.growth
        self.latency = self._broker.counters.latencies.of("native", "ProduceAck")
        self.appender = Appender(self.routing.counters)
        self.unanswered = Deadlines(self.routing.clock, _time_out)
        self._batch_format = self._broker.store.batch_format

    def produce(self, request: Produce) -> bool:
        """Take a produce of 0.7; return False if it has to wait.

        A producer may send one message per request, so a request that need not wait is gathered without an object.
        Raises ProducerCutOff if the request is refused and the refusal closes the connection.
        """
        topic, partition, message_set = request
        if len(message_set) > AT_ONCE_BYTES or self.growth.held:
            return self.begin(SilentProduceRequest(self, (request,)))
        try:
            last = self._last
            if last is not None and last[0] == topic and last[1] == partition:
                _, _, log, limits = last
            else:
                self._rights.check_topic(Operation.WRITE, topic)
                found = self.routing.logs.log(topic, partition)
                if found is None or found.offline is not None or found.replica is not None:
                    if self.must_create(topic, partition):
                        return self.begin(SilentProduceRequest(self, (request,)))
                    found = self.log_for(topic, partition)
                    if found.replica is not None:
                        return self.begin(SilentProduceRequest(self, (request,)))
                log, limits = found, found.settings.entry_limits
                if partition >= 0:  # for -1 the broker chooses a partition for each request
                    self._last = topic, partition, log, limits
            count, newest, has_batches, has_epochs = loops.check_set(message_set, *limits)
            if has_batches:
                if not self._batch_format.ready:
                    return self.begin(SilentProduceRequest(self, (request,)))
                if has_epochs:
                    message_set = set_with_leader_epoch(message_set, NO_LEADER_EPOCH)
        except WireError as error:
            self.refuse_silently(topic, partition, error)
        else:
            self.appender.add(log, message_set, count, newest)
        return True

    def joined_produces(self, request: JoinedProduces) -> bool:
        """Take several Produces of 0.7 whose sets are one; see ``produce``.

        If anything about them is unusual, each is taken by itself, so that a bad set does no harm to the others.
        """
        topic, partition, message_set, sizes = request
        log = self.routing.logs.log(topic, partition)
        if (
            log is None
            or log.offline is not None
            or log.replica is not None
            or self.growth.held
            or len(message_set) > AT_ONCE_BYTES
            or not self.appender.fits(log, len(message_set))
            or self.refuses(topic)
        ):
            return self.begin(SilentProduceRequest(self, request.produces()))
        try:
            checked = loops.check_set(message_set, *log.settings.entry_limits)
        except WireError:
            return self.begin(SilentProduceRequest(self, request.produces()))
        if checked.has_batches and (checked.has_epochs or not self._batch_format.ready):
            return self.begin(SilentProduceRequest(self, request.produces()))
        self.appender.add(log, message_set, checked.messages, checked.newest, len(sizes))
        return True

    def multi_produce(self, request: MultiProduce) -> bool:
        """Take a MultiProduce of 0.7; see ``produce``."""
        return self.begin(SilentProduceRequest(self, request.produces))

    def produce_ack(self, request: ProduceAck, token: Any) -> bool:
        """Take a ProduceAck, to be answered under ``token``; return False if it has to wait.

        A producer may send one message in each, so a request with one part that need not wait has no object.
        """
        if len(request.parts) == 1 and request.acks in (1, -1) and self._gather_alone(request, token):
            return True
        return self.begin(AcknowledgedProduceRequest(self, request.parts, token, request.acks, request.timeout_ms))

    def _gather_alone(self, request: ProduceAck, token: Any) -> bool:
        """Gather the only part of a request with acks 1 or -1. Return False if anything about it is unusual."""
        acks = request.acks
        topic, partition, epoch, _, message_set = request.parts[0]
        log = self.routing.logs.log(topic, partition)
        if (
            log is None
            or log.offline is not None
            or log.replica is not None
            or self.stopping
            or self.growth.held
            or (topic, partition) in self.broken
            or len(message_set) > AT_ONCE_BYTES
            or self.refuses(topic)
        ):
            return False
        try:
            log.leadership.check_produce(epoch, acks)
            count, newest, has_batches, has_epochs = loops.check_set(message_set, *log.settings.entry_limits)
        except WireError:
            return False
        if has_epochs or (has_batches and not self._batch_format.ready):
            return False
        arrived = self.arrived

        def appended(first: int, after: int) -> None:
            result = ProducedPart(topic, partition, 0, partition, first, after)
            if acks == 1 or log.visible_end >= after:
                answer(result)
            else:
                LoneFlush(self, result, answer).begin(log, request.timeout_ms)

        def not_appended(error: BaseException) -> None:
            self.mark_broken(topic, partition)
            self.refuse(topic, partition, error)
            answer(ProducedPart(topic, partition, code_of(error)))

        def answer(result: ProducedPart) -> None:
            self.latency.observe(self.routing.clock.seconds() - arrived)
            self.connection.answer(token, ProduceAckResponse((result,)))

        self.appender.add_told(log, message_set, count, newest, appended, not_appended)
        return True

    def resume(self) -> bool:
        """Continue the waiting request; return False if it has to wait again. Raises as ``produce`` does."""
        request, self.waiting = self.waiting, None
        return request is None or self.begin(request)

    def append(self) -> None:
        """Append the sets that were gathered since the last call."""
        self._last = None
        for error in self.appender.append():
            if self._broker.settings.legacy_refused_close:
                self._cut_off(error)
            else:
                self._report(error)

    def creations_settled(self) -> None:
        """Forget failed creations of topics, and of the format for batches: a later request tries again."""
        self._not_created.clear()
        self._format_error = None

    def lost(self) -> None:
        """Cancel the requests of a lost connection. Appended sets stay; no answer is sent."""
        if self.waiting is not None:
            self.waiting.cancel()
        for request in self.unanswered:
            request.cancel()
        self.unanswered.stop()
        self.growth.discard(self.connection)

    # Called by requests

    def waits_for_growth(self, parts: Sequence[Produce | ProducePart]) -> bool:
        """Return whether a part goes to a log that may not grow now; the connection is held then."""
        if not self.growth.must_wait(parts, self._broker.store):
            return False
        self.growth.wait(self.connection)
        return True

    def ends_turn(self) -> bool:
        """End the turn of the connection if it is over; return whether it was."""
        if not self.connection.turn_is_over:
            return False
        self.connection.end_turn()
        return True

    def turns(self) -> FairTurns:
        """Return the turns of an answer that has many parts."""
        return self._broker.turns()

    def must_create(self, topic: str, partition: int) -> bool:
        """Return whether a produce to this partition waits for the creation of its topic."""
        if topic in self._not_created or not self.routing.creates(topic, partition) or self.refuses(topic):
            return False
        try:
            self._rights.check_create(topic)
        except WireError as error:
            self._not_created[topic] = error
            return False
        return True

    def refuses(self, topic: str) -> bool:
        """Return whether the access rules forbid this connection to produce to a topic."""
        return self._rights.topic_refusal(Operation.WRITE, topic) is not None

    def create(self, topic: str, settings: Mapping[str, int | str]) -> None:
        """Pause the connection until a topic is created, or cannot be: its sets are refused then."""
        self.connection.pause(PauseReason.TOPIC)

        def failed(failure: Failure) -> None:
            error = failure.value
            if not isinstance(error, WireError):
                error = UnknownError(f"cannot create {topic!r}: {error}")
            self._not_created[topic] = error

        creating = self._broker.create_on_demand(self._rights.requester, topic, settings)
        creating.addErrback(failed)
        creating.addCallback(lambda _: self.connection.resume(PauseReason.TOPIC))

    def waits_for_format(self) -> bool:
        """Return whether batches cannot be appended yet; the connection is paused then until the request tries again.

        Raises the WireError to answer if the data directory's format could not be raised.
        """
        if self._batch_format.ready:
            return False
        if self._format_error is not None:
            raise self._format_error
        self.connection.pause(PauseReason.FORMAT)

        def raised(error: WireError | None) -> None:
            self._format_error = error
            self.connection.resume(PauseReason.FORMAT)

        self._batch_format.make_ready(raised)
        return True

    def log_for(self, topic: str, partition: int) -> PartitionLog:
        """Return the log to append to. Raises the WireError to answer."""
        self._rights.check_topic(Operation.WRITE, topic)
        try:
            return self.routing.log_for(topic, partition)
        except UnknownTopic:
            if topic in self._not_created:
                raise self._not_created[topic] from None
            raise

    def mark_broken(self, topic: str, partition: int) -> None:
        """Refuse later sets for the requested partition until the producer restarts."""
        if len(topic) > LONGEST_TOPIC_NAME:
            return  # each is refused for that
        self.broken.add((topic, partition))
        if len(self.broken) > MOST_BROKEN:
            self.connection.close(f"its sets for {len(self.broken)} different partitions were refused")

    def refuse(self, topic: str, partition: int, error: BaseException) -> None:
        """Count and log a set that was not appended."""
        self.routing.counters.refuse(error)
        if not isinstance(error, PipelineBroken):
            self._report(error, topic, partition)

    def refuse_silently(self, topic: str, partition: int, error: WireError) -> None:
        """Refuse a set of 0.7, which has no answer. Raises ProducerCutOff if the refusal closes the connection."""
        if not self._broker.settings.legacy_refused_close:
            self.refuse(topic, partition, error)
            return
        self.routing.counters.refuse(error)
        self._cut_off(error, topic, partition)
        raise ProducerCutOff

    def begin(self, request: ProduceRequest) -> bool:
        """Let a request advance; return False if it has to wait."""
        if request.advance():
            return True
        self.waiting = request
        return False

    # Internals

    def _cut_off(self, error: BaseException, topic: str = "?", partition: int = -1) -> None:
        self.connection.close(
            f"its message set for topic {excerpt(topic)}, partition {partition}, was refused ({error}), and "
            "legacy.refused.close = true closes the connection of a refused produce of 0.7"
        )

    def _report(self, error: BaseException, topic: str = "?", partition: int = -1) -> None:
        """Log the first, second, fourth, eighth ... refusal of a connection, so that a flood does not fill the disk."""
        self._refused += 1
        if self._refused & (self._refused - 1) == 0:
            self._log.warn(
                "refused a message set of {peer} for topic {topic}, partition {partition}: {error} ({refused} so far)",
                peer=self.connection.peer,
                topic=excerpt(topic),
                partition=partition,
                error=str(error),
                refused=self._refused,
            )
