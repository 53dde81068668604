"""Assembles a broker from its resources, starts the broker, and stops it in order before one deadline."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from logd.broker.broker import Broker
from logd.broker.flush_pressure import FlushPressure
from logd.broker.registration import BrokerRegistration
from logd.broker.topics.stored_topics import StoredTopics
from logd.broker.wiring import join_others
from logd.config import BrokerSettings
from logd.coord.interfaces import ICoordination
from logd.deferreds.sleeping import sleep
from logd.deferreds.timeouts import fired_within
from logd.interfaces import IFileOperations, IThreads
from logd.log.store.file_watch import FileWatch
from logd.log.store.log_store import LogStore
from logd.log.store.topics_file import TopicsFile
from logd.net.limits.connection_quotas import AdmissionLimits
from logd.net.limits.server_limits import ConnectionLimits
from logd.net.server import ConnectionFactory
from logd.net.transfer import SendfileSender
from logd.protocol.conversation.server import ServerConversation

#: Seconds between two checks of the connections while stopping.
STOP_POLL_SECONDS = 0.02
#: The latest end of each step of a stop, as a share of ``stop.ms``. A step that ends early leaves its time to the next.
#: The steps: leave the tree, let clients take their answers, flush, close the tree and the files.
LEAVE, ANSWER, FLUSH, CLOSE = 0.25, 0.5, 0.8, 1.0
#: The number of unflushed partitions that the log names after a stop.
_NAMED = 10


class TreeAccess(Protocol):
    """One broker's access to the coordination tree, which is embedded or served elsewhere."""

    @property
    def problem(self) -> str | None:
        """The reason why the tree cannot be used before a restart; None while it may become available."""
        ...

    def open(self, data: str) -> ICoordination:
        """Serve an embedded tree from the locked data directory. Return a client that is not connected yet."""
        ...

    def connect(self) -> None:
        """Let the client connect; it retries until it succeeds."""
        ...

    async def leave(self) -> None:
        """End the client's session. If no server answers, the tree expires the session later."""
        ...

    async def close(self) -> None:
        """Close the embedded tree, if any. Call ``leave`` first."""
        ...


@frozen
class Listener:
    """A listening port: the address that clients are told, and ``stop``, which ends accepting connections."""

    advertised: tuple[str, int]
    stop: Callable[[], object]


@frozen
class BrokerResources:
    """The clocks, disk, threads, tree and network that a broker uses. The assembly opens and closes nothing else."""

    #: The reactor, or a clock in a test; measures durations.
    clock: Any
    #: The time of day, in seconds since the epoch.
    wall: Callable[[], float]
    files: IFileOperations
    #: The data directory, absolute.
    data: str
    flush_threads: IThreads
    read_threads: IThreads
    tree: TreeAccess
    #: Listens before it returns. Raises ConfigurationError if the endpoint cannot be listened on.
    listen: Callable[[ConnectionFactory], Listener]
    #: Ends the threads once their work is done.
    end_threads: Callable[[], Deferred[None]]
    #: The numbers of files that may be open for reading and for appending.
    open_readers: int = 512
    open_writers: int = 1024
    #: ``pick(n)`` is a random number below n.
    pick: Callable[[int], int] = random.randrange


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
class BrokerAssembly:
    """The life cycle of one broker: ``open``, ``join``, ``stop``."""

    _log = Logger()

    settings: BrokerSettings
    resources: BrokerResources
    broker: Broker | None = field(default=None, init=False)
    store: LogStore | None = field(default=None, init=False)
    membership: BrokerRegistration | None = field(default=None, init=False)
    factory: ConnectionFactory | None = field(default=None, init=False)
    _listener: Listener | None = field(default=None, init=False)
    _loops: list[LoopingCall] = field(factory=list, init=False)
    _waiting: IDelayedCall | None = field(default=None, init=False)
    _stopping: Deferred[StopReport] | None = field(default=None, init=False)

    def open(self) -> Broker:
        """Lock and open the data directory, recover, open the tree, and listen. Blocks; clients wait until ``join``.

        Raises DataDirectoryError, or ConfigurationError if an endpoint cannot be listened on, with everything closed.
        """
        settings, resources = self.settings, self.resources
        clock, files, reads = resources.clock, resources.files, resources.read_threads
        gate = FlushPressure()
        store = LogStore(
            resources.data,
            files,
            clock,
            resources.flush_threads,
            settings.log,
            broker_id=settings.id,
            flush_workers=settings.flush_threads,
            unflushed_limit=settings.unflushed_bytes,
            on_pressure=gate.set,
            open_files_limit=resources.open_readers,
            open_writers_limit=resources.open_writers,
            report=self._report,
            wall=resources.wall,
        )
        stored = StoredTopics(store, TopicsFile(files, resources.data), reads, settings)
        store.open(stored.settings_for)
        try:
            stored.reconcile()
            tree = resources.tree.open(resources.data)
            broker, membership = join_others(tree, stored, store, settings, reads, clock, gate, resources.pick)
            broker.membership = lambda: self._with_tree(membership.health())
            conversation = partial(ServerConversation, settings.frame_bytes)
            sender, limits = SendfileSender(reads), _limits(settings)
            self.factory = ConnectionFactory(conversation, broker, sender, clock, limits, broker.counters)
            self._listener = resources.listen(self.factory)
        except BaseException:
            self._close_tree()
            store.close()
            raise
        broker.advertised = self._listener.advertised
        self.broker, self.store, self.membership = broker, store, membership
        return broker

    def join(self) -> None:
        """Join the other brokers and start the housekeeping of the logs."""
        broker, store, membership = self.broker, self.store, self.membership
        assert broker is not None and store is not None and membership is not None
        settings, clock = self.settings, self.resources.clock
        membership.start()
        self.resources.tree.connect()
        self._waiting = clock.callLater(settings.zookeeper_timeout_ms / 1000, self._serve_what_is_known)
        watch = FileWatch(self.resources.files, self.resources.read_threads, store.logs)
        for work, milliseconds in (
            (store.expire, settings.retention_check_ms),
            (store.write_checkpoints, settings.checkpoint_ms),
            (watch.look, settings.checkpoint_ms),
        ):
            loop = LoopingCall(self._look_after, work)
            loop.clock = clock
            loop.start(milliseconds / 1000, now=False)
            self._loops.append(loop)

    def stop(self) -> Deferred[StopReport]:
        """Stop accepting, finish or refuse requests in flight, flush, write checkpoints, and close.

        Fires within ``stop.ms``, whatever clients, the tree and the disk do. A second call has the same outcome.
        """
        if self._stopping is None:
            self._stopping = Deferred.fromCoroutine(self._stop())
        waiter: Deferred[StopReport] = Deferred()

        def stopped(result: StopReport) -> StopReport:
            waiter.callback(result)
            return result

        self._stopping.addCallbacks(stopped, waiter.errback)
        return waiter

    async def _stop(self) -> StopReport:
        broker, store, membership, listener = self.broker, self.store, self.membership, self._listener
        if broker is None or store is None or membership is None or listener is None:
            return StopReport({}, ())
        clock = self.resources.clock
        began = clock.seconds()

        def until(share: float) -> float:
            end: float = began + share * self.settings.stop_ms / 1000
            return end

        closing_port: Deferred[Any] = maybeDeferred(listener.stop)
        for loop in self._loops:
            loop.stop()
        broker.stop()
        broker.begin()  # connections that waited for the tree are told that the broker is stopping
        if self._waiting is not None and self._waiting.active():
            self._waiting.cancel()
        leaving = Deferred.fromCoroutine(membership.stop())
        await _fired_by(clock, until(LEAVE), closing_port)
        if not await _fired_by(clock, until(LEAVE), leaving):
            self._log.warn("the coordination tree does not answer; stopping without it")
        await self._end_sessions(broker, until(ANSWER))
        # Nothing is appended any more, so this flush ends.
        flushed: Deferred[None] = Deferred()
        store.flush_all(lambda: flushed.callback(None))
        is_flushed = await _fired_by(clock, until(FLUSH), flushed)
        await self._poll(lambda: not broker.sessions, until(FLUSH))
        for session in tuple(broker.sessions):
            session.connection.close(drain=False)
        return await self._close(broker, store, is_flushed, until(CLOSE))

    async def _end_sessions(self, broker: Broker, until: float) -> None:
        """Close each connection once its client has all its answers, and the rest at the time ``until``."""

        def close_idle() -> bool:
            for session in tuple(broker.sessions):
                if session.connection.idle:
                    session.connection.close()
            return not broker.sessions

        await self._poll(close_idle, until)
        for session in tuple(broker.sessions):
            session.connection.close()

    async def _close(self, broker: Broker, store: LogStore, is_flushed: bool, until: float) -> StopReport:
        clock = self.resources.clock
        unfinished = []
        third = (until - clock.seconds()) / 3
        if not await _fired_by(clock, until - 2.5 * third, Deferred.fromCoroutine(broker.ends.finish())):
            self._log.warn(
                "the stored ends of the partitions were not written to the coordination tree in time; the next start "
                "writes them"
            )
        if not await _fired_by(clock, until - 2 * third, Deferred.fromCoroutine(self.resources.tree.leave())):
            self._log.warn("the coordination tree does not answer; this broker's session ends there when it times out")
        if not await _fired_by(clock, until - third, Deferred.fromCoroutine(self.resources.tree.close())):
            unfinished.append("the coordination tree is not closed")
        if not is_flushed:
            # A thread still uses the files: they stay open, and the data directory stays locked.
            unflushed = {
                f"{log.topic}-{log.partition}": log.unflushed_bytes
                for log in store.logs()
                if log.unflushed_bytes and log.offline is None
            }
            unfinished.append("the checkpoints are not written")
            return self._told(StopReport(unflushed, tuple(unfinished)))
        written: Deferred[None] = Deferred()
        store.finish_upkeep(lambda: written.callback(None))
        if not await _fired_by(clock, until, written):
            unfinished.append("the checkpoints are not all written")
            return self._told(StopReport({}, tuple(unfinished)))
        closed: Deferred[None] = Deferred()

        def store_closed(_: None, error: BaseException | None) -> None:
            if error is not None:
                closed.errback(error)
            else:
                closed.callback(None)

        self.resources.flush_threads.run(store.close, store_closed)
        if not await _fired_by(clock, until, closed):
            unfinished.append("the files are not all closed")
        elif not await _fired_by(clock, until, self.resources.end_threads()):
            unfinished.append("a read from the disk has not ended")
        return self._told(StopReport({}, tuple(unfinished)))

    def _told(self, report: StopReport) -> StopReport:
        """Log the outcome and return it."""
        if report.clean:
            self._log.info("stopped; every partition is flushed")
            return report
        if report.unflushed:
            names = sorted(report.unflushed)
            self._log.critical(
                "{bytes} bytes of {count} partitions were not flushed within stop.ms = {limit} ({names}): they are "
                "lost if the power fails before the system writes them. Messages acknowledged with acks=-1 are flushed",
                bytes=sum(report.unflushed.values()),
                count=len(names),
                limit=self.settings.stop_ms,
                names=", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else ""),
            )
        self._log.critical(
            "stopped when stop.ms = {limit} ran out, unfinished: {unfinished}; the next start checks the logs",
            limit=self.settings.stop_ms,
            unfinished="; ".join(report.unfinished),
        )
        return report

    async def _poll(self, reached: Callable[[], bool], until: float) -> None:
        """Wait until ``reached()`` returns true, at most until the time ``until``."""
        clock = self.resources.clock
        while not reached() and clock.seconds() < until:
            await sleep(clock, min(STOP_POLL_SECONDS, until - clock.seconds()))

    def _with_tree(self, health: dict[str, Any]) -> dict[str, Any]:
        """Return the membership's health, with the tree's problem if it has one."""
        problem = self.resources.tree.problem
        return {**health, "problem": problem} if problem is not None else health

    def _serve_what_is_known(self) -> None:
        if self.broker is not None and not self.broker.ready:
            self._log.warn(
                "the coordination tree is not reached yet; topics in the data directory are served meanwhile"
            )
            self.broker.begin()

    def _close_tree(self) -> None:
        """Close the tree after a failed start."""

        async def close() -> None:
            await self.resources.tree.leave()
            await self.resources.tree.close()

        Deferred.fromCoroutine(close()).addErrback(
            lambda failure: self._log.failure("the coordination tree could not be closed", failure)
        )

    def _report(self, format: str, **fields: Any) -> None:  # noqa: A002
        self._log.warn(format, **fields)

    def _look_after(self, work: Callable[[], None]) -> None:
        # A LoopingCall stops for good when its call raises, and without housekeeping a full disk would stay full.
        try:
            work()
        except Exception:
            self._log.failure("housekeeping of the logs failed; the next run tries again")


def _limits(settings: BrokerSettings) -> ConnectionLimits:
    return ConnectionLimits(
        settings.connection_requests,
        settings.frames_bytes,
        _or_none(settings.frame_ms),
        _or_none(settings.send_ms),
        _or_none(settings.idle_ms),
        admission=AdmissionLimits(settings.connections_max, _or_none(settings.connections_address_max)),
    )


def _or_none(limit: int) -> int | None:
    return None if limit == -1 else limit


def _fired_by(clock: Any, deadline: float, doing: Deferred[Any]) -> Deferred[bool]:
    return fired_within(clock, deadline - clock.seconds(), doing)
