"""A produce request and its state.

A request passes the states of ProduceState in order. Before its sets are gathered it may have to wait: for a log that
may not grow, for the creation of a topic, for the check of a large set. The connection is held meanwhile, so that no
later request overtakes it, and then calls ``advance`` again, which continues in the same state. The first batch of a
data directory waits too, while the sets are gathered: for the format that older releases refuse (``BatchFormat``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import define, field

from logd.broker.flush_waits import FlushListener, code_of, seconds_of
from logd.broker.requests.core import LEGACY_SETTINGS, NO_SETTINGS
from logd.broker.requests.sliced_checks import AT_ONCE_BYTES, SlicedChecks
from logd.errors import BrokerStopping, InvalidRequest, PipelineBroken, RequestTimedOut, WireError
from logd.log.partition import PartitionLog
from logd.net.session import PauseReason
from logd.protocol import loops
from logd.protocol.batch_layout import NO_LEADER_EPOCH, set_with_leader_epoch
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.produce_ack import ProduceAckResponse, ProducedPart, ProducePart

if TYPE_CHECKING:
    from logd.broker.requests.produce import ProduceRequests

#: Parts that are gathered, and appended, before it is asked whether the turn is over.
STEP_PARTS = 50


class ProduceState(Enum):
    """The states of a produce request, in order."""

    #: Topics of the request may have to be created.
    RECEIVED = 1
    #: Each topic of the request exists or cannot be created.
    TOPICS_KNOWN = 2
    #: Large sets are checked, in slices; small sets are checked while they are gathered.
    CHECKED = 3
    #: The sets are gathered behind those of earlier requests, for one write to each log; the request has released them.
    GATHERED = 4
    #: The sets are appended or refused. Some may have to be flushed before the answer.
    APPENDED = 5
    #: The request is finished, and answered if it asked for an answer.
    ANSWERED = 6


# Globals take an eighth of the time of a lookup in the enum (19 instead of 151 ns), several times per request.
_RECEIVED, _TOPICS_KNOWN, _CHECKED, _GATHERED, _APPENDED, _ANSWERED = ProduceState


@define(eq=False)
class ProduceRequest:
    """The part that all kinds of produce requests share: the steps until the sets are gathered."""

    _producing: ProduceRequests
    _parts: Sequence[Produce | ProducePart]
    #: The settings of topics that the request creates.
    _new_topics: ClassVar[Mapping[str, int | str]] = NO_SETTINGS
    state: ProduceState = field(default=ProduceState.RECEIVED, init=False)
    _checks: SlicedChecks | None = field(default=None, init=False)
    #: The index of the first part that is not gathered or refused; before that of the first whose topic is not known.
    _next: int = field(default=0, init=False)

    def advance(self) -> bool:
        """Continue until the sets are gathered. Return False if the request has to wait; the connection is paused then.

        Call it again when the connection resumes.
        """
        if self.state is not _CHECKED and self._waits_for_growth(self._parts, self._next):
            return False
        if self.state is _RECEIVED:
            if not self._topics_are_known():
                return False
            self.state = _TOPICS_KNOWN
        if self.state is _TOPICS_KNOWN:
            if not self._sets_are_checked():
                return False
            self.state = _CHECKED
        self.state = _GATHERED
        parts, self._parts = self._parts, ()
        begin = step = self._next
        for index in range(begin, len(parts)):
            waits = False
            if index == step:
                if index > begin:
                    self._producing.append()
                    waits = self._producing.ends_turn()
                step += STEP_PARTS
                waits = waits or self._waits_for_growth(parts, index)
            if waits or not self._gather(index, parts[index]):
                self.state, self._parts, self._next = _CHECKED, parts, index
                return False
        self._all_gathered()
        return True

    def cancel(self) -> None:
        """Stop waiting, as the connection is lost."""
        if self._checks is not None:
            self._checks.stop()

    def _gather(self, index: int, part: Any) -> bool:
        """Pass a set to the appender, or refuse it. Return False if it has to wait; the connection is paused then."""
        raise NotImplementedError

    def _all_gathered(self) -> None:
        """Called once each set is gathered or refused."""

    def _topics_are_known(self) -> bool:
        """Start the creation of the first missing topic; return True if no topic is missing."""
        producing = self._producing
        topics = producing.routing.topics
        parts, known = self._parts, None
        rest_at = self._next + STEP_PARTS
        for index in range(self._next, len(parts)):
            if index == rest_at:
                if producing.ends_turn():
                    self._next = index
                    return False
                rest_at += STEP_PARTS
            topic, partition = parts[index].topic, parts[index].partition
            if topic == known:
                continue
            if topics.get(topic) is not None:
                known = topic
            elif producing.must_create(topic, partition):
                self._next = index
                producing.create(topic, self._new_topics)
                return False
        self._next = 0
        return True

    def _waits_for_growth(self, parts: Sequence[Produce | ProducePart], begin: int) -> bool:
        """Return whether a part of the step from ``begin`` on goes to a log that may not grow; wait for it then."""
        producing = self._producing
        return bool(producing.growth.held) and producing.waits_for_growth(parts[begin : begin + STEP_PARTS])

    def _sets_are_checked(self) -> bool:
        """Have sets that are large in total checked in slices; return whether no such check is left to do."""
        if self._checks is None:
            if sum([len(part.message_set) for part in self._parts]) <= AT_ONCE_BYTES:
                return True
            routing = self._producing.routing
            limits = [
                None if self._producing.refuses(part.topic) else routing.entry_limits(part.topic, part.partition)
                for part in self._parts
            ]
            sets = {
                index: (part.message_set, each)
                for index, (part, each) in enumerate(zip(self._parts, limits, strict=True))
                if each is not None
            }
            if sum([len(message_set) for message_set, _ in sets.values()]) <= AT_ONCE_BYTES:
                return True
            connection = self._producing.connection
            connection.pause(PauseReason.CHECK)
            self._checks = SlicedChecks(sets, routing.clock, lambda: connection.resume(PauseReason.CHECK))
            self._checks.start()
        return self._checks.done

    def _checked(self, index: int, message_set: bytes, log: PartitionLog) -> loops.Checked:
        """Return the findings of the check of a set. Raises InvalidMessage or MessageTooLarge."""
        limits = log.settings.entry_limits
        if self._checks is None:
            return loops.check_set(message_set, *limits)
        return self._checks.result(index, message_set, limits)


@define(eq=False)
class SilentProduceRequest(ProduceRequest):
    """A Produce or MultiProduce of 0.7, which has no answer. Bad sets are refused, counted and logged."""

    _new_topics: ClassVar[Mapping[str, int | str]] = LEGACY_SETTINGS

    def _gather(self, index: int, part: Produce) -> bool:
        producing = self._producing
        topic, partition, message_set = part
        try:
            log = producing.log_for(topic, partition)
            checked = self._checked(index, message_set, log)
            if checked.has_batches and producing.waits_for_format():
                return False
        except WireError as error:
            producing.refuse_silently(topic, partition, error)
        else:
            producing.appender.add(log, _stored(message_set, checked, log), checked.messages, checked.newest)
        return True


@define(eq=False)
class AcknowledgedProduceRequest(ProduceRequest):
    """A ProduceAck, answered once each of its parts is settled, unless ``acks`` is 0."""

    _token: Any
    _acks: int
    _timeout_ms: int
    _results: list[ProducedPart | None] = field(init=False)
    #: The number of parts that are not settled, and of those not appended yet.
    _left: int = field(init=False)
    _unappended: int = field(init=False)
    #: The waits of parts: one for each log that has to be flushed, one for each part that waits for copies.
    _flushing: dict[Any, FlushListener] = field(factory=dict, init=False)
    #: The time when the request came.
    _arrived: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._arrived = self._producing.arrived
        self._left = self._unappended = len(self._parts)
        self._results = [None] * self._left
        if self._producing.stopping:
            self.state = _CHECKED  # each part is refused: nothing is created or checked

    def settle(self, index: int, result: ProducedPart) -> None:
        """Take the final result of one part, a success or an error."""
        self._results[index] = result
        self._left -= 1
        if not self._left:
            self._answer()

    def flushed(self, listener: FlushListener) -> None:
        """Settle the parts of a listener: they are flushed, and have their results."""
        del self._flushing[listener.key]
        self._left -= len(listener.indexes)
        if not self._left:
            self._answer()

    def not_flushed(self, listener: FlushListener, error: BaseException) -> None:
        """Settle parts that were appended: no more of them will be flushed."""
        del self._flushing[listener.key]
        for index in listener.indexes:
            if not self._settle_flushed(index, listener):
                self._lose_part(index, error)

    def _settle_flushed(self, index: int, listener: FlushListener) -> bool:
        """Settle a part of a listener if it is flushed, though others are not; return whether it is."""
        result = self._results[index]
        assert result is not None
        is_flushed = listener.is_flushed(result.next_position)
        if is_flushed:
            self.settle(index, result)
        return is_flushed

    def _lose_part(self, index: int, error: BaseException) -> None:
        """Settle a part that will never be flushed. Later ones are refused until it is sent again."""
        asked = self._results[index]
        assert asked is not None
        self._mark_broken(asked.topic, asked.partition)
        self.settle(index, ProducedPart(asked.topic, asked.partition, code_of(error)))

    def cancel(self) -> None:
        """See ProduceRequest. Appended sets stay; no answer is sent."""
        ProduceRequest.cancel(self)
        flushing, self._flushing = self._flushing, {}
        for each in flushing.values():
            each.cancel()

    def _gather(self, index: int, part: ProducePart) -> bool:
        try:
            return self._gather_part(index, part)
        except WireError as error:
            self._refuse_part(index, part, error)
            return True

    def _all_gathered(self) -> None:
        if not self._results:
            self._answer()
        elif self._left:
            self._producing.unanswered.watch(self, seconds_of(self._timeout_ms))

    def _gather_part(self, index: int, part: ProducePart) -> bool:
        producing, acks = self._producing, self._acks
        key = (part.topic, part.partition)
        if producing.stopping:
            raise BrokerStopping("the broker is stopping")
        if part.restart:
            producing.broken.discard(key)
        elif key in producing.broken:
            raise PipelineBroken(f"an earlier set of {part.topic}-{part.partition} was refused on this connection")
        if acks < -1:
            raise InvalidRequest(f"acks {acks} is not allowed: use -1, 0, 1 or a number of copies")
        log = producing.log_for(part.topic, part.partition)
        log.leadership.check_produce(part.leader_epoch, acks)
        if log.replica is not None:
            log.replica.check_produce(acks)
        checked = self._checked(index, part.message_set, log)
        if checked.has_batches and producing.waits_for_format():
            return False

        def appended(first: int, after: int) -> None:
            self._settled_append(index, ProducedPart(part.topic, part.partition, 0, log.partition, first, after), log)

        def not_appended(error: BaseException) -> None:
            self._refuse_part(index, part, error)

        message_set = _stored(part.message_set, checked, log)
        producing.appender.add_told(log, message_set, checked.messages, checked.newest, appended, not_appended)
        return True

    def _settled_append(self, index: int, result: ProducedPart, log: PartitionLog) -> None:
        """Take the place of a part that is appended; it is settled once acks are there."""
        self._unappended -= 1
        if not self._unappended:
            self.state = _APPENDED
        if self._acks > 1 and log.replica is not None:
            listener = self._listener(index, index, result)
            listener.wait = log.replica.wait_copies(self._acks, result.next_position, listener)
        elif self._acks not in (0, 1) and log.visible_end < result.next_position:
            self._wait_for_flush(index, result, log)
        else:
            self.settle(index, result)

    def _refuse_part(self, index: int, part: ProducePart, error: BaseException) -> None:
        if self._acks != 0:
            self._mark_broken(part.topic, part.partition)
        self._producing.refuse(part.topic, part.partition, error)
        self._unappended -= 1
        if not self._unappended:
            self.state = _APPENDED
        self.settle(index, ProducedPart(part.topic, part.partition, code_of(error)))

    def _mark_broken(self, topic: str, partition: int) -> None:
        """Have later sets of the connection for this partition refused until the producer restarts it."""
        self._producing.mark_broken(topic, partition)

    def _wait_for_flush(self, index: int, result: ProducedPart, log: PartitionLog) -> None:
        """Settle a part once its log is flushed up to the part's end."""
        listener = self._flushing.get(log)
        if listener is None:
            listener = self._listener(log, index, result)
            listener.wait_for(log)
        else:
            # All parts are answered together, so those of one log wait for the last of them.
            self._results[index] = result
            listener.indexes.append(index)
            # A batch that is stored already has an earlier end than the new ones before it.
            listener.end = max(listener.end, result.next_position)
        self._producing.routing.due_now(log)

    def _listener(self, key: Any, index: int, result: ProducedPart) -> FlushListener:
        """Return the listener for a part that waits; ``result`` is its own unless the wait fails."""
        self._results[index] = result
        listener = self._flushing[key] = FlushListener(self, key, [index], result.next_position)
        return listener

    def time_out(self) -> None:
        """Answer that the parts which still wait were not flushed in time."""
        flushing, self._flushing = self._flushing, {}
        for listener in flushing.values():
            listener.cancel()
            for index in listener.indexes:
                if not self._settle_flushed(index, listener):
                    asked = self._results[index]
                    assert asked is not None
                    self.settle(index, ProducedPart(asked.topic, asked.partition, RequestTimedOut.code))

    def _answer(self) -> None:
        self.state = _ANSWERED
        producing = self._producing
        producing.unanswered.forget(self)
        producing.latency.observe(producing.routing.clock.seconds() - self._arrived)
        if self._acks != 0:
            self._send_answer()

    def _send_answer(self) -> None:
        parts = tuple([part for part in self._results if part is not None])
        self._producing.connection.answer(self._token, ProduceAckResponse(parts))


def _stored(message_set: bytes, checked: loops.Checked, log: PartitionLog) -> bytes:
    """Return a checked set as it is stored: with the leader epoch of this broker in each batch."""
    if log.replica is not None and checked.has_batches:
        return set_with_leader_epoch(message_set, log.leadership.epoch)
    return set_with_leader_epoch(message_set, NO_LEADER_EPOCH) if checked.has_epochs else message_set
