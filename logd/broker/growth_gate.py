"""Connections that produce wait while a log that they append to may not grow: its end has to be in the tree before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from attrs import define, field
from twisted.logger import Logger
from zope.interface import implementer

from logd.broker.flush_pressure import Gated
from logd.broker.reading import Logs
from logd.interfaces import IFlushListener
from logd.log.partition import PartitionLog
from logd.log.waiters import Wait
from logd.net.holds import Hold

_log = Logger()

#: No log comes to this position: a wait for it ends when the log goes offline.
_NEVER = 1 << 63


class Destination(Protocol):
    """The part of a message set's request that is needed here."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


@define(eq=False)
class GrowthGate:
    """The logs that may not grow now, and the connections that wait for them. Owner thread only.

    A log that goes offline, or is deleted, is let go: producers are told so instead of waiting.
    """

    #: By topic; with what tells when a log goes offline. Empty nearly always: producing looks at a partition only when
    #: it is not.
    held: dict[str, dict[PartitionLog, Wait | None]] = field(factory=dict, init=False)
    _waiting: dict[Gated, None] = field(factory=dict, init=False)

    def hold(self, log: PartitionLog) -> None:
        """Let producers to this log wait."""
        logs = self.held.setdefault(log.topic, {})
        if log not in logs:
            logs[log] = None
            wait = log.wait_visible(_NEVER, _WhenOffline(self, log))
            if wait is not None:
                logs[log] = wait

    def let_go(self, logs: Iterable[PartitionLog]) -> None:
        """Let producers to these logs go on."""
        found = False
        for log in logs:
            held = self.held.get(log.topic, {})
            if log in held:
                found = True
                wait = held.pop(log)
                if wait is not None:
                    wait.cancel()
                if not held:
                    del self.held[log.topic]
        if found:
            self._wake()

    def let_go_topic(self, topic: str) -> None:
        """Let producers to all logs of a topic go on."""
        self.let_go(tuple(self.held.get(topic, ())))

    def must_wait(self, parts: Iterable[Destination], logs: Logs) -> bool:
        """Return whether one of the parts of a request has to wait; call it before any is taken."""
        for part in parts:
            held = self.held.get(part.topic)
            # With partition -1 any of the topic's may be picked.
            if held and (part.partition == -1 or logs.log(part.topic, part.partition) in held):
                return True
        return False

    def wait(self, connection: Gated) -> None:
        """Hold a connection until any log is let go: then it looks again."""
        self._waiting[connection] = None
        connection.hold(Hold.GROWTH)

    def discard(self, connection: Gated) -> None:
        """The connection is gone."""
        self._waiting.pop(connection, None)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            try:
                connection.proceed(Hold.GROWTH)
            except Exception:  # a bug; the others would wait for ever
                _log.failure("a producing connection could not go on")


@implementer(IFlushListener)
@define(eq=False)
class _WhenOffline:
    """Lets a log go that is served no more."""

    _gate: GrowthGate
    _held: PartitionLog

    def visible(self, end: int) -> None:
        """See IFlushListener; no log comes so far."""

    def failed(self, error: BaseException) -> None:
        """See IFlushListener."""
        self._gate.let_go([self._held])
