"""The way of one reporter's events to the topic ``_audit``: each is sent again until a broker has it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from attrs import define, field
from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.audit.counter import WindowCounter
from logd.audit.event import AUDIT_TOPIC, AuditEvent, Reporter, encode_event
from logd.deferreds.timeouts import with_timeout
from logd.deferreds.waiting import WaitingDeferreds
from logd.interfaces import Clock, Timer
from logd.protocol.message import Message

#: Events that are held while the brokers do not take them; beyond it the oldest are dropped, and reported.
MOST_EVENTS = 10_000
#: Seconds before events are sent again that could not be delivered.
RETRY_SECONDS = 5.0
#: Sends messages of one key to AUDIT_TOPIC; fires once all are acknowledged.
PublishEvents = Callable[[Sequence[Message]], Deferred[Any]]


def new_reporter(server: str) -> Reporter:
    """Return a reporter of this process."""
    return Reporter(server, os.getpid(), str(uuid4()))


@define(eq=False)
class AuditPublisher:
    """Takes the events of a counter when they are due, and publishes them in order."""

    _log = Logger()

    _clock: Clock
    _counter: WindowCounter
    _publish: PublishEvents
    #: Returns the time of day, in ms since the epoch.
    _time_ms: Callable[[], int]
    #: Returns the cluster's uuid, "" while it is not known.
    _cluster: Callable[[], str]
    #: Events that no broker has yet; those in front are in flight.
    _events: deque[AuditEvent] = field(factory=deque, init=False)
    _in_flight: int = field(default=0, init=False)
    #: The number of events in front that reports wait for.
    _awaited: int = field(default=0, init=False)
    _timer: Timer | None = field(default=None, init=False)
    #: The time for which the timer is set, in ms.
    _timer_at: int = field(default=0, init=False)
    #: The time for sending events again, until the brokers take them.
    _retry: Timer | None = field(default=None, init=False)
    _dropped: int = field(default=0, init=False)
    _settled: WaitingDeferreds[None] = field(factory=WaitingDeferreds, init=False)
    _reported: WaitingDeferreds[None] = field(factory=WaitingDeferreds, init=False)
    _closed: bool = field(default=False, init=False)

    def changed(self) -> None:
        """Look when the next event is due. Call it after each change of the counter."""
        due = self._counter.next_due
        if due is None or self._closed or (self._timer is not None and self._timer_at <= due):
            return
        self._set(due)

    def report(self) -> Deferred[None]:
        """Publish all counts that are known, without waiting for the ends of windows, often in place of ``changed``.

        Fires once the brokers have all events of these counts, however often they have to be sent. Cancellable; the
        events stay.
        """
        self._take(end=True)
        if not self._events:
            return succeed(None)
        self._awaited = len(self._events)
        reported = self._reported.new()
        self._send()
        return reported

    def finish(self) -> Deferred[None]:
        """Publish all counts that are known, without waiting for the ends of windows.

        Fires once the brokers have them, or do not take them. Nothing is published afterwards.
        """
        self._stop()
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        self._take(end=True)
        self._closed = True
        self._send()
        return self._settled.new() if self._in_flight else succeed(None)

    async def finish_within(self, seconds: float) -> None:
        """Do as ``finish``, for at most some seconds. Never fails."""
        with suppress(CancelledError, defer.TimeoutError):
            await with_timeout(self._clock, max(0.0, seconds), self.finish())

    def _set(self, due: int) -> None:
        self._stop()
        self._timer_at = due
        self._timer = self._clock.callLater(max(0, due - self._time_ms()) / 1000, self._due)

    def _stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _due(self) -> None:
        self._stop()
        self._take()
        self._send()
        self.changed()

    def _take(self, *, end: bool = False) -> None:
        self._counter.cluster = self._cluster()
        self._events += self._counter.take_events(self._time_ms(), end=end)
        while len(self._events) > MOST_EVENTS + self._in_flight:
            del self._events[self._in_flight]
            self._dropped += 1
            if self._dropped == 1:
                self._log.error(
                    "more than {most} audit events could not be published to topic {topic}: the oldest are dropped, "
                    "and their windows will be shown as unaccounted",
                    most=MOST_EVENTS, topic=AUDIT_TOPIC,
                )  # fmt: skip

    def _send(self) -> None:
        """Send the events that wait, all together, unless earlier ones are in flight, or wait to be sent again."""
        waits = self._retry is not None and self._retry.active()
        if self._in_flight or waits or not self._events:
            return
        self._in_flight = len(self._events)
        now = self._time_ms()
        key = self._counter.reporter.instance.encode()
        messages = [Message(encode_event(event), key=key, timestamp=now) for event in self._events]
        self._publish(messages).addCallbacks(self._stored, self._failed)

    def _stored(self, _: object) -> None:
        for _ in range(self._in_flight):
            self._events.popleft()
        self._awaited = max(0, self._awaited - self._in_flight)
        self._in_flight = 0
        self._retry = None
        if self._closed and self._events:  # the last ones, which came while others were in flight
            self._send()
        elif self._closed:
            self._settled.fire(None)
        elif self._events:
            self._set(self._time_ms())
        if not self._awaited:
            self._reported.fire(None)

    def _failed(self, failure: Failure) -> None:
        self._in_flight = 0
        if self._retry is None:
            self._log.warn(
                "audit events could not be published to topic {topic}: {error}; {outcome}",
                topic=AUDIT_TOPIC, error=failure.getErrorMessage(),
                outcome="their windows will be shown as unaccounted" if self._closed else "they are sent again",
            )  # fmt: skip
        if self._closed:
            self._settled.fire(None)
        else:
            self._retry = self._clock.callLater(RETRY_SECONDS, self._due)
