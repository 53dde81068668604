"""Kafka's Fetch: the same waiting as native fetches; whole batches leave, entries of other kinds as batches.

Each part is answered from the entry that contains its offset. The client's own place inside an answer is remembered, so
that its next fetch needs no search for an entry's start.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred

from logd.broker.kafka.fetches.answer_pieces import AnswerEnd
from logd.broker.kafka.fetches.part_answer import FetchLimits, Next, PartAnswer
from logd.broker.kafka.fetches.shared_work import FetchWork
from logd.broker.kafka.leader_epochs import epoch_code
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.fetch import FetchRequests
from logd.broker.security.rights import Rights
from logd.net.output import close_pieces
from logd.protocol.kafka.fetch import KafkaFetch, KafkaFetchedPart, KafkaFetchPart
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait, FetchWaitResponse

#: Partitions of one connection whose next positions are remembered.
MOST_REMEMBERED = 20_000
#: A leader epoch that no partition has.
_REFUSED_EPOCH = (1 << 31) - 1
#: Parts that are answered in one turn of the reactor.
TURN_PARTS = 500
#: Partitions of one request that are looked up in one turn: more than consumers ask for, but not hostile clients.
MANY_PARTS = 10_000

Partition = tuple[str, int]


class KafkaFetching:
    """The Fetch requests of one connection."""

    def __init__(self, broker: BrokerCore, work: FetchWork, rights: Rights) -> None:
        self._broker = broker
        self._work = work
        #: The handler of native requests.
        self.native = FetchRequests(broker, rights)
        #: The offset that the client asks for next if it took all that it was sent, and the start of the entry there.
        self._next: dict[Partition, tuple[int, int]] = {}
        #: The first partition of the last answer for which there was no room: it comes first in the next.
        self._starved: Partition | None = None
        #: The end of the last answer, perhaps one that is not begun.
        self._last: AnswerEnd | None = None
        self._lost = False

    def lost(self) -> None:
        """Answer nothing more: the connection is lost."""
        self._lost = True
        self.native.lost()

    async def fetch(self, request: KafkaFetch) -> list[KafkaFetchedPart]:
        """Return the parts of the answer, once there are enough bytes or the wait is over.

        Fetches that are sent together are answered one by one, as by Kafka: the next when the answer before has left,
        so that no client makes the broker hold more than one answer.
        """
        before, self._last = self._last, AnswerEnd()
        end = self._last
        if before is not None and not before.closed:
            await before.wait()
            await self._next_turn()
        try:
            answers = await self._fetch(request)
        except BaseException:
            end.close()
            raise
        if not answers:
            end.close()
            return answers
        last = answers[-1]
        answers[-1] = last._replace(pieces=(*last.pieces, end))
        return answers

    async def _fetch(self, request: KafkaFetch) -> list[KafkaFetchedPart]:
        first = self._first(request.parts)
        asked = (*request.parts[first:], *request.parts[:first])
        parts = []
        for part in asked:
            parts.append(self._wanted(part))
            if len(parts) % MANY_PARTS == 0:
                await self._next_turn()
        wanted = FetchWait(request.max_wait_ms, request.min_bytes, max(request.max_bytes, 1), tuple(parts))
        response = self.native.fetch_wait(wanted)
        found: FetchWaitResponse = await response if isinstance(response, Deferred) else response
        answers = await self._answers(request, asked, found)
        return answers[len(asked) - first :] + answers[: len(asked) - first] if first else answers

    async def _answers(
        self, request: KafkaFetch, asked: Sequence[KafkaFetchPart], found: FetchWaitResponse
    ) -> list[KafkaFetchedPart]:
        work = self._work
        limits = FetchLimits(request.version, min(max(request.max_bytes, 1), self._broker.settings.fetch_max_bytes))
        self._starved = None
        answers: list[KafkaFetchedPart] = []
        parts = [PartAnswer(self._broker.store, work, *pair) for pair in zip(asked, found.parts, strict=True)]
        done = 0
        try:
            for part in parts:
                following = part.begin(limits)
                while following is Next.TURN and not self._lost:
                    await self._next_turn()
                    following = part.walk_on()
                if following is Next.THREAD:
                    await work.walks.run(part, self._is_lost)
                elif done % TURN_PARTS == TURN_PARTS - 1:
                    await self._next_turn()
                if self._lost:
                    break
                answers.append(part.finish(limits))
                if answers[-1].error:
                    self._broker.counters.kafka.failed("Fetch", answers[-1].error)
                done += 1
                if part.next is None:
                    self._next.pop(part.key, None)
                else:
                    self._remember(part.key, part.next)
                if part.starved and self._starved is None:
                    self._starved = part.key
        except BaseException:
            for answer in answers:
                close_pieces([piece for piece in answer.pieces if not isinstance(piece, memoryview)])
            raise
        finally:
            for part in parts[done:]:
                part.close()
        return answers

    def _next_turn(self) -> Deferred[None]:
        """Let others have their turns."""
        turn: Deferred[None] = Deferred()
        self._broker.clock.callLater(0, turn.callback, None)
        return turn

    def _is_lost(self) -> bool:
        return self._lost

    def _wanted(self, part: KafkaFetchPart) -> FetchPart:
        """Return the part of a native request; it begins where the entry begins, if that is known."""
        offset, exact = part.offset, False
        known = self._next.get((part.topic, part.partition))
        if known is not None and known[0] == offset:
            offset, exact = known[1], True
        log = self._broker.store.log(part.topic, part.partition)
        # The native fetch refuses a later epoch, and waits for nothing then; which error it is says the part's answer.
        epoch = _REFUSED_EPOCH if log is not None and epoch_code(log, part.leader_epoch) else 0
        return FetchPart(part.topic, part.partition, epoch, offset, max(part.max_bytes, 1), exact)

    def _first(self, parts: Sequence[KafkaFetchPart]) -> int:
        """Return the index of the part that had no room in the last answer."""
        if self._starved is None:
            return 0
        topic, partition = self._starved
        return next((i for i, part in enumerate(parts) if part.partition == partition and part.topic == topic), 0)

    def _remember(self, key: Partition, place: tuple[int, int]) -> None:
        if len(self._next) >= MOST_REMEMBERED and key not in self._next:
            del self._next[next(iter(self._next))]
        self._next[key] = place
