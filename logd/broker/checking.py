"""Checks of message sets that are too large for one turn of the reactor: others are served between their slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import define, field

from logd.errors import WireError
from logd.interfaces import Clock, Timer
from logd.protocol import loops
from logd.protocol.slices import check_in_slices

#: Sets of a request below this, together, are checked at once.
AT_ONCE_BYTES = 1 << 20
#: What is checked in one turn: some milliseconds, for small messages and for large ones.
SLICE_ENTRIES = 10_000
SLICE_BYTES = 1 << 20

#: Entries and newest timestamp, as ``check_set`` returns them.
Checked = tuple[int, int]


class CheckNeeded(Exception):
    """The request has to wait until these sets, each with its limit on messages, were checked."""

    def __init__(self, sets: Sequence[tuple[bytes, int]]) -> None:
        super().__init__()
        self.sets = sets


@define(eq=False)
class SetChecks:
    """The checks of one connection."""

    _clock: Clock
    #: What is known of sets whose request was put off, by id(); the value keeps the set alive.
    known: dict[int, tuple[bytes, int, Checked | WireError]] = field(factory=dict, init=False)
    _timer: Timer | None = field(default=None, init=False)

    def check(self, message_set: bytes, limit: int) -> Checked:
        """Return what ``check_set`` does, or raise what it raises."""
        if self.known:
            known = self.known.get(id(message_set))
            if known is not None and known[1] == limit:
                if isinstance(known[2], WireError):
                    raise known[2]
                return known[2]
        return loops.check_set(message_set, limit)

    def put_off(self, sets: Sequence[tuple[bytes, int]]) -> None:
        """Raise CheckNeeded where these are too much to be checked at once and were not yet."""
        if sum(len(message_set) for message_set, _ in sets) > AT_ONCE_BYTES:
            unknown = [each for each in sets if id(each[0]) not in self.known]
            if unknown:
                raise CheckNeeded(unknown)

    def start(self, needed: CheckNeeded, done: Callable[[], None]) -> None:
        """Check them in slices, a turn of the reactor for each, then call ``done``."""
        steps = self._steps(needed.sets)

        def turn() -> None:
            self._timer = None
            for _ in steps:
                self._timer = self._clock.callLater(0, turn)
                return
            done()

        turn()

    def clear(self) -> None:
        """The request that was put off is dealt with."""
        if self.known:
            self.known.clear()

    def stop(self) -> None:
        """The connection is gone."""
        self.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _steps(self, sets: Sequence[tuple[bytes, int]]) -> Iterator[None]:
        """Check; yield where a turn is over."""
        for message_set, limit in sets:
            entries, newest = 0, -1
            result: Checked | WireError
            try:
                for some, latest in check_in_slices(message_set, limit, SLICE_ENTRIES, SLICE_BYTES):
                    entries += some
                    newest = max(newest, latest)
                    yield
            except WireError as error:
                result = error
            else:
                result = entries, newest
            self.known[id(message_set)] = message_set, limit, result
