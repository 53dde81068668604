"""Kafka's Fetch: the same waiting as native fetches; whole batches leave, entries of other kinds as batches.

Each part is answered from the entry that contains its offset. The client's own place inside an answer is remembered, so
that its next fetch needs no search for an entry's start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from weakref import ReferenceType, ref

from twisted.internet.defer import Deferred

from logd.broker.kafka.fetches.answer_pieces import AnswerEnd
from logd.broker.kafka.fetches.incremental_fetches import IncrementalFetches, SessionRefused
from logd.broker.kafka.fetches.large_fetch import PIECE_PARTS, LargeFetch, pieces_of
from logd.broker.kafka.fetches.part_answer import FetchLimits, Next, PartAnswer
from logd.broker.kafka.fetches.shared_work import FetchWork
from logd.broker.kafka.leader_epochs import epoch_code
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.fetch import FetchRequests
from logd.broker.security.rights import Rights
from logd.deferreds.fair_turns import FairTurns
from logd.log.epochs.history import NO_EPOCH
from logd.log.partition import PartitionLog
from logd.net.output import close_pieces
from logd.protocol.kafka.fetch import (
    FIRST_SESSION_EPOCH,
    FetchedEncoder,
    KafkaFetch,
    KafkaFetchedPart,
    KafkaFetchPart,
)
from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart, FetchWait, FetchWaitResponse
from logd.protocol.requests.fields import MessageSetField

#: Partitions of one connection whose next positions are remembered.
MOST_REMEMBERED = 20_000
#: A leader epoch that no partition has.
_REFUSED_EPOCH = (1 << 31) - 1

Partition = tuple[str, int]


class NextPlace(NamedTuple):
    """The place in a log where a client goes on if it took all that it was sent.

    Another topic of that name has another log, and a log that was led in another epoch may have been truncated since.
    """

    #: The offset that the client asks for, and the start of the entry there.
    offset: int
    start: int
    log: ReferenceType[PartitionLog]
    leader_epoch: int

    def is_in(self, log: PartitionLog) -> bool:
        """Return whether the log has that entry still."""
        return self.log() is log and self.leader_epoch == log.leadership.epoch


class KafkaFetching:
    """The Fetch requests of one connection."""

    def __init__(self, broker: BrokerCore, work: FetchWork, rights: Rights) -> None:
        self._broker = broker
        self._work = work
        self._requester = rights.requester
        #: The handler of native requests.
        self.native = FetchRequests(broker, rights)
        self._incremental = IncrementalFetches(broker, rights, work, self._wanted_part)
        self._next: dict[Partition, NextPlace] = {}
        #: The first partition of the last answer for which there was no room: it comes first in the next.
        self._starved: Partition | None = None
        #: The end of the last answer, perhaps one that is not begun.
        self._last: AnswerEnd | None = None
        self._lost = False

    def lost(self) -> None:
        """Answer nothing more: the connection is lost."""
        self._lost = True
        self.native.lost()
        self._incremental.lost()

    def finish(self) -> None:
        """Answer the fetches that wait with what there is, as the broker is stopping."""
        self.native.finish()
        self._incremental.finish()

    def rights_changed(self) -> None:
        """Look again at what waits, as access rules have changed."""
        self.native.finish()
        self._incremental.rights_changed()

    def must_wait(self, request: KafkaFetch, resume: Callable[[], None]) -> bool:
        """Return whether a request should not be taken before the answer to the last one has left.

        So it is with those of many parts, which take memory. ``resume()`` is called then.
        """
        last = self._last
        named = len(request.parts) + len(request.forgotten)
        if named <= PIECE_PARTS or last is None or last.closed:
            return False
        last.wait().addCallback(lambda _: self._broker.resting.rest()).addCallback(lambda _: resume())
        return True

    async def fetch(self, request: KafkaFetch) -> FetchedEncoder:
        """Return the answer, once there are enough bytes or the wait is over.

        Fetches that are sent together are answered one by one, as by Kafka: the next when the answer before has left,
        so that no client makes the broker hold more than one answer.
        """
        before, self._last = self._last, AnswerEnd()
        end = self._last
        if before is not None and not before.closed:
            await before.wait()
            await self._broker.turns().rest()
        encoder = FetchedEncoder(request.version)
        try:
            await self._encode(request, encoder)
        except BaseException:
            _close(encoder.pieces)
            if not self._lost:  # else the fetch behind it may be forgotten already
                end.close()
            raise
        encoder.end(end)
        return encoder

    async def _encode(self, request: KafkaFetch, encoder: FetchedEncoder) -> None:
        turns = self._broker.turns()
        answers: list[KafkaFetchedPart] = []
        done = 0
        try:
            if request.epoch > FIRST_SESSION_EPOCH:
                await self._answer_incremental(request, encoder, answers, turns)
            else:
                if request.epoch == FIRST_SESSION_EPOCH or request.session == self._incremental.id:
                    self._incremental.end()
                await self._answer(request, answers, turns)
                if request.epoch == FIRST_SESSION_EPOCH:
                    failed = [(answer.topic, answer.partition) for answer in answers if answer.error]
                    encoder.session = await self._incremental.begin(request.parts, failed, turns)
            for answer in answers:
                if turns.over:
                    await turns.rest()
                encoder.add(answer)
                done += 1
        except BaseException:
            for answer in answers[done:]:
                _close(answer.pieces)
            raise

    async def _answer_incremental(
        self, request: KafkaFetch, encoder: FetchedEncoder, answers: list[KafkaFetchedPart], turns: FairTurns
    ) -> None:
        """Add the answers to the partitions of a session that have something."""
        incremental = self._incremental
        try:
            asked, found = await incremental.fetch(request, turns)
        except SessionRefused as refused:
            encoder.error = refused.code
            self._broker.counters.kafka.failed("Fetch", refused.code)
            return
        encoder.session = incremental.id
        await self._answer_parts(asked, found, self._limits(request), turns, answers)

    def _limits(self, request: KafkaFetch) -> FetchLimits:
        return FetchLimits(request.version, min(max(request.max_bytes, 1), self._broker.settings.fetch_max_bytes))

    async def _answer(self, request: KafkaFetch, answers: list[KafkaFetchedPart], turns: FairTurns) -> None:
        """Add the answers to all parts, in the order of the request."""
        first, count = self._first(request.parts), len(request.parts)
        asked = (*request.parts[first:], *request.parts[:first])
        limits = self._limits(request)
        if count <= PIECE_PARTS:
            response = self.native.fetch_wait(self._wanted(request, asked, request.min_bytes))
            found: FetchWaitResponse = await response if isinstance(response, Deferred) else response
            self._starved = None
            await self._answer_parts(asked, found.parts, limits, turns, answers)
        else:
            await self._answer_large(request, asked, limits, turns, answers)
        if first:
            answers[:] = answers[count - first :] + answers[: count - first]

    async def _answer_large(
        self,
        request: KafkaFetch,
        asked: Sequence[KafkaFetchPart],
        limits: FetchLimits,
        turns: FairTurns,
        answers: list[KafkaFetchedPart],
    ) -> None:
        """Add the answers to very many parts, a piece of them at a time."""
        pieces = pieces_of(len(asked))
        share = -(-request.min_bytes // len(pieces))
        fetch = self._large_fetch(request)
        try:
            for piece in pieces:
                if turns.over:
                    await turns.rest()
                if self._lost:
                    return
                await fetch.add(self._wanted(request, asked[piece], share))
            await fetch.wait(request.max_wait_ms, turns)
            self._starved = None
            for piece, found in zip(pieces, fetch.pieces, strict=True):
                if turns.over:
                    await turns.rest()
                if self._lost:
                    return
                await self._answer_parts(asked[piece], fetch.read(found), limits, turns, answers)
        finally:
            fetch.cancel()

    def _large_fetch(self, request: KafkaFetch) -> LargeFetch:
        broker, most = self._broker, self._broker.settings.fetch_max_bytes
        broker.counters.fetch_requests += 1
        room = broker.quotas.answer_bytes(self._requester, most)
        return LargeFetch(self.native, broker.clock, min(max(request.max_bytes, 1), most), room)

    async def _answer_parts(
        self,
        asked: Sequence[KafkaFetchPart],
        found: Sequence[FetchedPart],
        limits: FetchLimits,
        turns: FairTurns,
        answers: list[KafkaFetchedPart],
    ) -> None:
        """Add the answers to parts of which the ranges are found; each range is closed in the end."""
        work, done = self._work, 0
        part = None
        # As they were read: when a part's turn comes, its topic may have been made again, or its log truncated.
        logs = [self._broker.store.log(each.topic, each.partition) for each in asked]
        epochs = [NO_EPOCH if log is None else log.leadership.epoch for log in logs]
        try:
            for log, epoch, wanted, read in zip(logs, epochs, asked, found, strict=True):
                if turns.over:
                    await turns.rest()
                if self._lost:
                    break
                part = PartAnswer(log, work, wanted, read)
                done += 1
                following = part.begin(limits)
                while following is Next.TURN and not self._lost:
                    if turns.over:
                        await turns.rest()
                    following = part.walk_on()
                if following is Next.THREAD:
                    await work.walks.run(part, self._is_lost)
                if self._lost:
                    break
                answers.append(part.finish(limits))
                if answers[-1].error:
                    self._broker.counters.kafka.failed("Fetch", answers[-1].error)
                if part.next is None or log is None:
                    self._next.pop(part.key, None)
                else:
                    self._remember(part.key, NextPlace(*part.next, ref(log), epoch))
                if part.starved and self._starved is None:
                    self._starved = part.key
        finally:
            if part is not None:
                part.close()
            for each in found[done:]:
                _close((each.message_set,))

    def _is_lost(self) -> bool:
        return self._lost

    def _wanted(self, request: KafkaFetch, parts: Sequence[KafkaFetchPart], min_bytes: int) -> FetchWait:
        """Return the native request for these parts."""
        wanted = tuple([self._wanted_part(part) for part in parts])
        return FetchWait(request.max_wait_ms, min_bytes, max(request.max_bytes, 1), wanted)

    def _wanted_part(self, part: KafkaFetchPart) -> FetchPart:
        """Return the part of a native request; it begins where the entry begins, if that is known."""
        offset, exact = part.offset, False
        log = self._broker.store.log(part.topic, part.partition)
        known = self._next.get((part.topic, part.partition))
        if known is not None and known.offset == offset and log is not None and known.is_in(log):
            offset, exact = known.start, True
        # The native fetch refuses a later epoch, and waits for nothing then; which error it is says the part's answer.
        epoch = _REFUSED_EPOCH if log is not None and epoch_code(log, part.leader_epoch) else 0
        return FetchPart(part.topic, part.partition, epoch, offset, max(part.max_bytes, 1), exact)

    def _first(self, parts: Sequence[KafkaFetchPart]) -> int:
        """Return the index of the part that had no room in the last answer."""
        if self._starved is None:
            return 0
        topic, partition = self._starved
        return next((i for i, part in enumerate(parts) if part.partition == partition and part.topic == topic), 0)

    def _remember(self, key: Partition, place: NextPlace) -> None:
        if len(self._next) >= MOST_REMEMBERED and key not in self._next:
            del self._next[next(iter(self._next))]
        self._next[key] = place


def _close(pieces: Iterable[MessageSetField]) -> None:
    """Close the ranges among pieces that will not be sent."""
    close_pieces([piece for piece in pieces if not isinstance(piece, memoryview)])
