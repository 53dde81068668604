"""The work that the Fetch requests of all connections share: threads, memory, and the log of what is left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from itertools import count
from typing import Protocol

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.disk_slices import run_in_slices
from logd.broker.kafka.fetches.answer_pieces import MadeMemory
from logd.errors import UnknownError
from logd.interfaces import IThreads
from logd.log.partition import PartitionLog

#: Walks under way at once. Each may hold a wrapper decompressed.
MOST_AT_ONCE = 4
#: Places of damage that are remembered, so that each is logged once.
MOST_PLACES = 1000
_LAST_SESSION_ID = (1 << 31) - 1


class Walker(Protocol):
    """The work of one part of a fetch."""

    def steps(self) -> Generator[None, None, None]:
        """Do the work on a thread, a little at a time. Errors are kept, not raised."""
        ...

    def extend(self) -> bool:
        """On the owner's thread: return whether more steps are needed, and get ready for them."""
        ...


@define(eq=False)
class WalkQueue:
    """Runs the walks that need a thread: pages to be read from the disk, many bytes to be converted.

    They begin in the order of their coming.
    """

    _threads: IThreads
    _waiting: deque[tuple[Walker, Callable[[], bool], Deferred[None]]] = field(factory=deque, init=False)
    _running: int = field(default=0, init=False)

    def run(self, walker: Walker, lost: Callable[[], bool]) -> Deferred[None]:
        """Run a walk to its end; ``lost()`` is asked from time to time whether it is not wanted any more."""
        done: Deferred[None] = Deferred()
        self._waiting.append((walker, lost, done))
        self._start()
        return done

    def _start(self) -> None:
        while self._waiting and self._running < MOST_AT_ONCE:
            walker, lost, done = self._waiting.popleft()
            if lost():
                done.callback(None)
            else:
                self._running += 1
                self._go_on(walker, lost, done)

    def _go_on(self, walker: Walker, lost: Callable[[], bool], done: Deferred[None]) -> None:
        def check() -> None:
            if lost():
                raise UnknownError("the connection is lost")

        def ended(_: list[None] | None, error: BaseException | None) -> None:
            if error is None and not lost() and walker.extend():
                self._go_on(walker, lost, done)
                return
            self._running -= 1
            self._start()
            if error is not None and not lost():
                done.errback(error)
            else:
                done.callback(None)

        run_in_slices(self._threads, walker.steps(), check, ended)


@define(eq=False)
class LeftOut:
    """Logs what is left out of answers: each place once, as clients come back to it."""

    _log = Logger()
    #: Entries that were left out of answers.
    count: int = 0
    _places: dict[tuple[str, int, int], None] = field(factory=dict, init=False)

    def note(self, topic: str, partition: int, position: int, reason: str) -> bool:
        """Log the entry at ``position``; return whether it is new."""
        place = topic, partition, position
        if place in self._places:
            return False
        self._places[place] = None
        if len(self._places) > MOST_PLACES:
            del self._places[next(iter(self._places))]
        self.count += 1
        self._log.warn(
            "{topic}-{partition}: the entry at position {position} is left out for Kafka's clients: {reason}",
            topic=topic, partition=partition, position=position, reason=reason,
        )  # fmt: skip
        return True


class FetchWork:
    """The parts of it, one for each broker."""

    def __init__(
        self,
        threads: IThreads,
        suspect: Callable[[PartitionLog, int], None] = lambda log, position: None,
        may_heal: Callable[[PartitionLog, int], bool] = lambda log, position: False,
    ) -> None:
        """``suspect(log, position)`` is told of each entry that is left out: its segment may be damaged.

        ``may_heal(log, position)`` returns whether damage there is about to be healed, so that nothing is left out yet.
        """
        self.suspect = suspect
        self.may_heal = may_heal
        self.memory = MadeMemory()
        self.walks = WalkQueue(threads)
        self.left_out = LeftOut()
        self._session_ids = count(1)

    def next_session_id(self) -> int:
        """Return the id of a new fetch session: no other connection has it."""
        return (next(self._session_ids) - 1) % _LAST_SESSION_ID + 1
