"""Calls by clients of other protocols: each kind of each host is logged now and then, and counted in between."""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field

from logd.interfaces import Clock

#: Seconds until the same kind of caller is logged again: a client that is refused tries for ever.
AGAIN_AFTER = 60.0
#: Callers remembered; of more the oldest are forgotten, which costs a line too many.
MOST = 256


@define(eq=False)
class ForeignCallers:
    """Says which calls are worth a line in the log."""

    _clock: Clock
    #: By kind and host: until when nothing is logged, and how many calls there were since the last line.
    _told: OrderedDict[tuple[str, str], tuple[float, int]] = field(factory=OrderedDict, init=False)

    def called(self, kind: str, host: str) -> int | None:
        """Count a call; return how many were not logged since the last line, None for one that is not to be logged."""
        now = self._clock.seconds()
        until, unsaid = self._told.get((kind, host), (now, 0))
        if now < until:
            self._told[kind, host] = until, unsaid + 1
            return None
        self._told[kind, host] = now + AGAIN_AFTER, 0
        self._told.move_to_end((kind, host))
        if len(self._told) > MOST:
            self._told.popitem(last=False)
        return unsaid
