"""Stops a broker in order, each step with its share of one deadline: hand over, leave, answer, flush, close.

1. HAND_OVER: let other in-sync replicas lead what this broker leads.
2. LEAVE: accept no connections and requests any more, and leave the other brokers.
3. ANSWER: give each client the answers that it waits for, then close its connection.
4. FLUSH: copy nothing any more from other brokers, flush all that was appended, and cut off the connections left.
5. CLOSE: write the stored ends and the checkpoints; close the tree, the files and the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger

from logd.broker.broker import Broker
from logd.broker.registration import BrokerRegistration
from logd.broker.resources import BrokerResources, Listener
from logd.deferreds.sleeping import sleep
from logd.deferreds.timeouts import fired_within
from logd.log.store.log_store import LogStore
from logd.plurals import counted

#: The latest end of each step, as a share of ``stop.ms``. A step that ends early leaves its time to the next.
HAND_OVER, LEAVE, ANSWER, FLUSH, CLOSE = 0.25, 0.4, 0.55, 0.8, 1.0
#: Seconds between two checks of the connections.
STOP_POLL_SECONDS = 0.02
#: The number of unflushed partitions that the log names after a stop.
_NAMED = 10


@frozen
class StopReport:
    """The outcome of a stop: unflushed bytes by partition, and the parts of the broker that did not close in time."""

    unflushed: dict[str, int]
    unfinished: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """True if everything is flushed and closed."""
        return not (self.unflushed or self.unfinished)


@define(eq=False)
class Shutdown:
    """One stop of a broker that was opened; ``run`` is called once. ``stop_ms``: milliseconds for all steps."""

    _log = Logger()

    _stop_ms: int
    _resources: BrokerResources
    _broker: Broker
    _store: LogStore
    _membership: BrokerRegistration
    _listeners: list[Listener]
    _began: float = field(default=0.0, init=False)

    async def run(self) -> StopReport:
        """Stop the broker and return the outcome, within ``stop_ms``, whatever clients, the tree and the disk do."""
        self._began = self._resources.clock.seconds()
        self._broker.controller.stop()
        await self._hand_over(self._until(HAND_OVER))
        await self._leave(self._until(LEAVE))
        await self._answer(self._until(ANSWER))
        is_flushed = await self._flush(self._until(FLUSH))
        self._broker.replication.stop()
        return self._told(await self._close(is_flushed, self._until(CLOSE)))

    async def _hand_over(self, until: float) -> None:
        """Let other in-sync replicas lead. What is under way at the time ``until`` goes on beside the next steps."""
        handing_over = Deferred.fromCoroutine(self._broker.replication.hand_over(until))
        if not await self._fired_by(until, handing_over):
            self._log.warn("not all leaderships were handed over in time; other brokers lead once this one has left")

    async def _leave(self, until: float) -> None:
        """Accept no more connections and requests, and leave the other brokers."""
        closing_ports = [maybeDeferred(listener.stop) for listener in self._listeners]
        self._broker.stop()
        self._broker.begin()  # connections that waited for the tree are told that the broker is stopping
        leaving = Deferred.fromCoroutine(self._membership.stop())
        for closing_port in closing_ports:
            await self._fired_by(until, closing_port)
        if not await self._fired_by(until, leaving):
            self._log.warn("the coordination tree does not answer; stopping without it")

    async def _answer(self, until: float) -> None:
        """Close each connection once its client has all its answers, and the rest at the time ``until``."""
        sessions = self._broker.sessions

        def close_idle() -> bool:
            for session in tuple(sessions):
                if session.connection.idle:
                    session.connection.close()
            return not sessions

        await self._poll(close_idle, until)
        for session in tuple(sessions):
            session.connection.close()

    async def _flush(self, until: float) -> bool:
        """Flush all logs, and cut off the connections that are left. Return False if the flush did not end in time."""
        self._broker.replication.stop_following()  # nothing is appended from now on, so this flush ends
        flushed: Deferred[None] = Deferred()
        self._store.flush_all(lambda: flushed.callback(None))
        is_flushed = await self._fired_by(until, flushed)
        sessions = self._broker.sessions
        await self._poll(lambda: not sessions, until)
        for session in tuple(sessions):
            session.connection.close(drain=False)
        return is_flushed

    async def _close(self, is_flushed: bool, until: float) -> StopReport:
        """Write what the next start needs, and close the tree, the files and the threads."""
        resources, store = self._resources, self._store
        unfinished = []
        third = (until - resources.clock.seconds()) / 3
        if not await self._fired_by(until - 2.5 * third, Deferred.fromCoroutine(self._broker.ends.finish())):
            self._log.warn(
                "the stored ends of the partitions were not written to the coordination tree in time; the next start "
                "writes them"
            )
        if not await self._fired_by(until - 2 * third, Deferred.fromCoroutine(resources.tree.leave())):
            self._log.warn("the coordination tree does not answer; this broker's session ends there when it times out")
        if not await self._fired_by(until - third, Deferred.fromCoroutine(resources.tree.close())):
            unfinished.append("the coordination tree is not closed")
        if not is_flushed:
            # A thread still uses the files: they stay open, and the data directory stays locked.
            unflushed = {
                f"{log.topic}-{log.partition}": log.unflushed_bytes
                for log in store.logs()
                if log.unflushed_bytes and log.offline is None
            }
            unfinished.append("the checkpoints are not written")
            return StopReport(unflushed, tuple(unfinished))
        if not await self._fired_by(until - third / 2, Deferred.fromCoroutine(self._broker.idempotence.finish())):
            self._log.warn("what idempotent producers have sent is not all written; the next start reads the logs")
        written: Deferred[None] = Deferred()
        store.finish_upkeep(lambda: written.callback(None))
        if not await self._fired_by(until, written):
            unfinished.append("the checkpoints are not all written")
            return StopReport({}, tuple(unfinished))
        closed: Deferred[None] = Deferred()

        def store_closed(_: None, error: BaseException | None) -> None:
            if error is not None:
                closed.errback(error)
            else:
                closed.callback(None)

        resources.flush_threads.run(store.close, store_closed)
        if not await self._fired_by(until, closed):
            unfinished.append("the files are not all closed")
        elif not await self._fired_by(until, resources.end_threads()):
            unfinished.append("a read from the disk has not ended")
        return StopReport({}, tuple(unfinished))

    def _told(self, report: StopReport) -> StopReport:
        """Log the outcome and return it."""
        if report.clean:
            self._log.info("stopped; every partition is flushed")
            return report
        if report.unflushed:
            names = sorted(report.unflushed)
            self._log.critical(
                "{bytes} of {partitions} were not flushed within stop.ms = {limit} ({names}): they are "
                "lost if the power fails before the system writes them. Messages acknowledged with acks=-1 are flushed",
                bytes=counted(sum(report.unflushed.values()), "byte"),
                partitions=counted(len(names), "partition"),
                limit=self._stop_ms,
                names=", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else ""),
            )
        self._log.critical(
            "stopped when stop.ms = {limit} ran out, unfinished: {unfinished}; the next start checks the logs",
            limit=self._stop_ms,
            unfinished="; ".join(report.unfinished),
        )
        return report

    def _until(self, share: float) -> float:
        return self._began + share * self._stop_ms / 1000

    async def _poll(self, reached: Callable[[], bool], until: float) -> None:
        """Wait until ``reached()`` returns true, at most until the time ``until``."""
        clock = self._resources.clock
        while not reached() and clock.seconds() < until:
            await sleep(clock, min(STOP_POLL_SECONDS, until - clock.seconds()))

    def _fired_by(self, deadline: float, doing: Deferred[Any]) -> Deferred[bool]:
        return _fired_by(self._resources.clock, deadline, doing)


def _fired_by(clock: Any, deadline: float, doing: Deferred[Any]) -> Deferred[bool]:
    return fired_within(clock, deadline - clock.seconds(), doing)
