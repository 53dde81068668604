"""Pauses producing connections while a log may not grow: its new end has to be written to the tree first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from attrs import define, field
from twisted.logger import Logger
from zope.interface import implementer

from logd.broker.flush_pressure import Gated
from logd.interfaces import IFlushListener
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.log.visibility.waiters import Wait
from logd.net.session import PauseReason

_log = Logger()

#: A position that no log reaches: waiting for it ends only when the log goes offline.
_NEVER = 1 << 63


class Destination(Protocol):
    """The fields that the parts of all kinds of produce requests share."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


@define(eq=False)
class StoredEndGate:
    """The logs that may not grow now, and the connections that wait for them. For the owner thread only.

    A log that goes offline or is deleted is released: its producers get an error instead of waiting.
    """

    #: Held logs by topic, each with its listener. Nearly always empty: only otherwise does producing check partitions.
    held: dict[str, dict[PartitionLog, Wait | None]] = field(factory=dict, init=False)
    _waiting: dict[Gated, None] = field(factory=dict, init=False)

    def hold(self, log: PartitionLog) -> None:
        """Make producers to this log wait."""
        logs = self.held.setdefault(log.topic, {})
        if log not in logs:
            logs[log] = None
            wait = log.wait_visible(_NEVER, _WhenOffline(self, log))
            if wait is not None:
                logs[log] = wait

    def let_go(self, logs: Iterable[PartitionLog]) -> None:
        """Let producers to these logs proceed."""
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
        """Let producers to all logs of a topic proceed."""
        self.let_go(tuple(self.held.get(topic, ())))

    def must_wait(self, parts: Iterable[Destination], logs: LogStore) -> bool:
        """Return whether one of these parts has to wait. Call it before any of them is taken."""
        for part in parts:
            held = self.held.get(part.topic)
            # With partition -1 any partition of the topic may be picked.
            if held and (part.partition == -1 or logs.log(part.topic, part.partition) in held):
                return True
        return False

    def wait(self, connection: Gated) -> None:
        """Pause a connection until any log is released; it then checks again."""
        self._waiting[connection] = None
        connection.pause(PauseReason.GROWTH)

    def discard(self, connection: Gated) -> None:
        """Forget a connection that is lost."""
        self._waiting.pop(connection, None)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            try:
                connection.resume(PauseReason.GROWTH)
            except Exception:  # a bug; the others would wait for ever
                _log.failure("a producing connection could not be resumed")


@implementer(IFlushListener)
@define(eq=False)
class _WhenOffline:
    """Releases a held log that goes offline."""

    _gate: StoredEndGate
    _held: PartitionLog

    def visible(self, end: int) -> None:
        """See IFlushListener. Never called: no log reaches the position."""

    def failed(self, error: BaseException) -> None:
        """See IFlushListener."""
        self._gate.let_go([self._held])
