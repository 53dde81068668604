"""Checks of message sets that are too large for one turn of the reactor, in slices with other work in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from attrs import define, field

from logd.errors import WireError
from logd.interfaces import Clock, Timer
from logd.protocol import loops
from logd.protocol.slices import check_in_slices

#: Sets of a request below this size in total are checked at once.
AT_ONCE_BYTES = 1 << 20
#: Entries and bytes that are checked in one turn: some milliseconds, both for small and for large messages.
SLICE_ENTRIES = 10_000
SLICE_BYTES = 1 << 20

#: The most bytes of a message, and of a batch, and whether only messages of 0.7 are taken, as ``check_set`` takes them.
Limits = tuple[int, int, bool]


@define(eq=False)
class SlicedChecks:
    """The checks of one request's sets, by the index of their part. ``result`` is valid once ``done`` is true."""

    #: Each set, with its limits.
    _sets: Mapping[int, tuple[bytes, Limits]]
    _clock: Clock
    _on_done: Callable[[], None]
    done: bool = field(default=False, init=False)
    _results: dict[int, loops.Checked | WireError] = field(factory=dict, init=False)
    _timer: Timer | None = field(default=None, init=False)

    def start(self) -> None:
        """Check the sets in slices, one per turn of the reactor, then call ``on_done``."""
        steps = self._steps()

        def turn() -> None:
            self._timer = None
            for _ in steps:
                self._timer = self._clock.callLater(0, turn)
                return
            self.done = True
            self._on_done()

        turn()

    def stop(self) -> None:
        """End the checks; the outcome is not wanted any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def result(self, index: int, message_set: bytes, limits: Limits) -> loops.Checked:
        """Return or raise the outcome of ``check_set``. The limits may have changed since the check."""
        if index in self._results and self._sets[index][1] == limits:
            result = self._results[index]
            if isinstance(result, WireError):
                raise result
            return result
        return loops.check_set(message_set, *limits)

    def _steps(self) -> Iterator[None]:
        """Check the sets; yield at the end of each turn."""
        for index, (message_set, (message_bytes, batch_bytes, legacy)) in self._sets.items():
            whole = loops.Checked(0, -1)
            try:
                for checked in check_in_slices(
                    message_set, message_bytes, batch_bytes, SLICE_ENTRIES, SLICE_BYTES, legacy
                ):
                    whole = whole.with_more(checked)
                    yield
            except WireError as error:
                self._results[index] = error
            else:
                self._results[index] = whole
