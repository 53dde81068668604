"""Calls by clients of other protocols: logged now and then for each kind and host, and counted in between."""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field

from logd.interfaces import Clock
from logd.protocol.conversation.foreign import ForeignClient

#: Seconds until the same kind of caller is logged again: a refused client retries for ever.
AGAIN_AFTER = 60.0
#: The most callers remembered; beyond that the oldest are forgotten, which costs an extra log line.
MOST = 256


@define(eq=False)
class ForeignCallers:
    """Counts calls by clients of other protocols, and decides which are logged."""

    _clock: Clock
    #: All calls, by kind.
    counts: dict[str, int] = field(factory=dict, init=False)
    #: By kind and host: the end of the time without log lines, and the number of calls since the last line.
    _told: OrderedDict[tuple[str, str], tuple[float, int]] = field(factory=OrderedDict, init=False)

    def line(self, client: ForeignClient, host: str) -> str:
        """Count a call. Return what to log of it, nothing if that was logged lately."""
        unsaid = self.called(client.kind, host)
        if unsaid is None:
            return ""
        return f"{client}" + f" ({unsaid} more such calls from {host} since the last such line)" * bool(unsaid)

    def called(self, kind: str, host: str) -> int | None:
        """Count a call. Return the number of unlogged calls since the last line, or None if this one is not logged."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
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
