"""Counts of one reporter, by topic, window and origin, and the events that report them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from attrs import define, evolve, field

from logd.audit.event import ALL_ORIGINS, AuditEvent, Reporter, Tier
from logd.audit.spans import Span, widen
from logd.audit.windows import DEFAULT_WIDTH, check_width, window_of

#: The most origins of one topic and window that are counted apart: what more servers sent is counted under "*". So
#: messages with any headers cannot fill the memory.
MOST_ORIGINS = 1000
#: Ms after which messages are reported that were counted after their window's end, unless windows are narrower.
LATE = 10_000
#: The most windows that are counted at a time: with more, the oldest is reported at once. So messages with any times
#: cannot fill the memory either.
MOST_WINDOWS = 10_000


@define
class _Count:
    """The messages of one origin since the last event."""

    messages: int = 0
    #: Bytes of keys and values; None once messages were counted that were not opened.
    bytes: int | None = 0
    unsettled: int = 0
    first: dict[int, int] = field(factory=dict)
    last: dict[int, int] = field(factory=dict)
    copied_first: dict[int, int] = field(factory=dict)
    copied_last: dict[int, int] = field(factory=dict)

    def add(self, messages: int, size: int | None, span: Span | None, copied: Sequence[Span]) -> None:
        self.messages += messages
        self.bytes = None if size is None or self.bytes is None else self.bytes + size
        if span is not None:
            widen(self.first, self.last, {span.partition: span.first}, {span.partition: span.last})
        for each in copied:
            widen(self.copied_first, self.copied_last, {each.partition: each.first}, {each.partition: each.last})


@define
class _Window:
    """A topic's window that is being counted."""

    #: The time, in ms, at which its counts are reported.
    due: int
    #: Batches in flight, whose fate is not known.
    in_flight: int = 0
    origins: dict[str, _Count] = field(factory=dict)

    def of(self, origin: str) -> _Count:
        count = self.origins.get(origin)
        if count is None:
            if len(self.origins) >= MOST_ORIGINS:
                origin = ALL_ORIGINS
            count = self.origins.setdefault(origin, _Count())
        return count


@define(eq=False)
class WindowCounter:
    """The counter of one reporter in one tier.

    Times are in ms since the epoch. The first count of a topic's window makes an event with ``open``. The counts are
    reported once the window is over and nothing of it is in flight; messages that are counted later open it again for
    LATE ms. Messages without a time (-1) are not counted: they are in no window. Call ``take_events``
    after counts and when ``next_due`` has come, and publish what it returns in that order.
    """

    tier: Tier
    reporter: Reporter
    width: int = DEFAULT_WIDTH
    group: str = ""
    #: The cluster's uuid; may be set later, but before the first event is taken.
    cluster: str = ""
    #: False: counts are reported so often that nothing need be said before (see AuditEvent.open). The last event of
    #: each topic then has the positions of all, so that those who have only the first events do not take messages for
    #: missing that others count.
    opens: bool = True
    #: Of a mirror: the cluster from which it copies, and the names of topics that have another one on the target.
    source: str = ""
    copies: Mapping[str, str] = field(factory=dict)
    #: In order of coming. A dict would look through all that were deleted to find the oldest one.
    _windows: OrderedDict[tuple[str, int], _Window] = field(factory=OrderedDict, init=False)
    #: Those that were too many, and are reported once events are taken.
    _surplus: dict[tuple[str, int], _Window] = field(factory=dict, init=False)
    #: Openings to report: topic, window and origin.
    _opened: list[tuple[str, int, str]] = field(factory=list, init=False)
    _sequence: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        check_width(self.width)

    def sent(self, topic: str, time: int, origin: str, now: int) -> None:
        """Count one more batch in flight: its messages may be stored before anything else is heard of them."""
        if time >= 0:
            self._window(topic, time, origin, now).in_flight += 1

    def settled(self, topic: str, time: int) -> None:
        """End one ``sent``."""
        window = self._found(topic, window_of(time, self.width))
        if window is not None and window.in_flight:
            window.in_flight -= 1

    def add(
        self,
        topic: str,
        time: int,
        origin: str,
        messages: int,
        size: int | None,
        now: int,
        span: Span | None = None,
        copied: Sequence[Span] = (),
    ) -> None:
        """Count messages of one window, by the time of one of them. ``size``: bytes of keys and values, if known.

        ``copied``: where a mirror has stored them.
        """
        if messages > 0 and time >= 0:
            self._window(topic, time, origin, now).of(origin).add(messages, size, span, copied)

    def unsettled(self, topic: str, time: int, origin: str, messages: int, now: int) -> None:
        """Count messages that were sent, were not acknowledged, and may be stored."""
        if time >= 0:
            self._window(topic, time, origin, now).of(origin).unsettled += messages

    @property
    def next_due(self) -> int | None:
        """Return the time at which the next event is due, 0 if there is one now; None if nothing is counted.

        A window with batches in flight is not due.
        """
        if self._opened or any(not window.in_flight for window in self._surplus.values()):
            return 0
        return min((window.due for window in self._windows.values() if not window.in_flight), default=None)

    @property
    def surplus(self) -> int:
        """Return the number of windows that wait to be reported since there are too many: take events soon."""
        return len(self._surplus)

    def take_events(self, now: int, *, end: bool = False) -> list[AuditEvent]:
        """Return the events that are due, in the order of their sequence. ``end``: the last call, all counts are due.

        Windows with batches in flight stay open, at the end too: nobody knows how many of their messages are stored.
        """
        events = [self._event(topic, start, origin, _Count(), True) for topic, start, origin in self._opened]
        self._opened.clear()
        for windows in (self._surplus, self._windows):
            for (topic, start), window in list(windows.items()):
                if not window.in_flight and (end or window.due <= now):
                    del windows[topic, start]
                    origins = window.origins or {"": _Count()}
                    events += [self._event(topic, start, origin, count, False) for origin, count in origins.items()]
        return events if self.opens else _with_spans_last(events)

    def _found(self, topic: str, start: int) -> _Window | None:
        return self._windows.get((topic, start)) or self._surplus.get((topic, start))

    def _window(self, topic: str, time: int, origin: str, now: int) -> _Window:
        start = window_of(time, self.width)
        window = self._found(topic, start)
        if window is None:
            if len(self._windows) >= MOST_WINDOWS:
                oldest = next(iter(self._windows))
                self._surplus[oldest] = self._windows.pop(oldest)
                self._surplus[oldest].due = now
            end = start + self.width
            window = self._windows[topic, start] = _Window(end if end > now else now + min(self.width, LATE))
            if self.opens:
                self._opened.append((topic, start, origin))
        return window

    def _event(self, topic: str, start: int, origin: str, count: _Count, is_open: bool) -> AuditEvent:
        number, self._sequence = self._sequence, self._sequence + 1
        return AuditEvent(
            cluster=self.cluster,
            tier=self.tier,
            group=self.group,
            topic=topic,
            window=start,
            width=self.width,
            origin=origin,
            reporter=self.reporter,
            sequence=number,
            count=count.messages,
            bytes=count.bytes,
            first=count.first,
            last=count.last,
            open=is_open,
            unsettled=count.unsettled,
            source=self.source,
            copy=self.copies.get(topic, ""),
            copied_first=count.copied_first,
            copied_last=count.copied_last,
        )


def _with_spans_last(events: list[AuditEvent]) -> list[AuditEvent]:
    """Return the events with the positions of each topic in its last event."""
    positions: dict[str, tuple[dict[int, int], dict[int, int]]] = {}
    for event in events:
        widen(*positions.setdefault(event.topic, ({}, {})), event.first, event.last)
    for number in reversed(range(len(events))):
        first, last = positions.pop(events[number].topic, ({}, {}))
        events[number] = evolve(events[number], first=first, last=last)
    return events
