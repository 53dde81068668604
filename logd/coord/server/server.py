"""A ZooKeeper server of one node: one durable tree, served to any number of connections, bounded."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.logger import Logger

from logd.coord.errors import SystemFailure
from logd.coord.server.admission import TreeAdmission
from logd.coord.server.connection import ServerConnection
from logd.coord.server.counters import ServerCounters
from logd.coord.server.four_letter_words import answer_word
from logd.coord.server.pending import REQUEST_BYTES
from logd.coord.server.settings import CoordinationServerSettings
from logd.coord.server.storage.durable_tree import Storage
from logd.coord.server.storage.journal import JournalDisk
from logd.coord.server.storage.tree_reopening import LONGEST_SECONDS, Reopening
from logd.coord.tree.outcome import MultiFailed, Outcome
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import SessionLimits, TreeHost
from logd.deferreds.waiting import OneTimeEvent
from logd.errors import DataDirectoryError, ProtocolViolation
from logd.interfaces import Clock, IFileOperations, IThreads
from logd.net.limits.connection_quotas import AdmissionLimits, OpenConnections
from logd.net.limits.server_limits import ConnectionLimits, Watch

#: Seconds between two log lines about a full tree.
_REFUSED_SECONDS = 60.0


class CoordinationServer:
    """``start`` it, listen with ``factory``; ``stop`` it in the end, once nothing listens any more.

    ::

        threads = DiskThreads(reactor, 2, "coordination")       # two: a snapshot must not hold up a sync
        threads.start()
        server = CoordinationServer(reactor, "/data/coordination", LocalFiles(), threads, wall=time.time)
        server.start()
        port = await serverFromString(reactor, "tcp:2181:interface=127.0.0.1").listen(server.factory)
        ...
        await port.stopListening()
        await server.stop()
        threads.stop()
    """

    log = Logger()

    def __init__(
        self,
        clock: Clock,
        folder: str,
        files: IFileOperations,
        threads: IThreads,
        settings: CoordinationServerSettings = CoordinationServerSettings(),
        failed: Callable[[Exception], None] = lambda error: None,
        random_bytes: Callable[[int], bytes] = os.urandom,
        wall: Callable[[], float] | None = None,
    ) -> None:
        """``clock`` is the reactor; ``folder`` (absolute) is made if it is not there, its parent must be.

        ``wall()`` is the time of day for the times of nodes, in seconds since the epoch; without, the clock's seconds.

        ``threads`` has at least two threads. ``failed(error)`` is called if a sync fails: every connection has been
        closed by then, and nothing is served until the folder is recovered, which is retried until it succeeds.
        """
        self.clock = clock
        self.settings = settings
        self.folder = folder
        self.counters = ServerCounters()
        self.storage = Storage(
            JournalDisk(folder, files, threads, clock, random_bytes), settings.snapshot_bytes, self._report
        )
        self.factory: Factory = _ServerFactory(self)
        #: Decides who may use the tree.
        self.admission = TreeAdmission(self)
        #: The reason why nothing is served at the moment; None while the tree is served.
        self.error: Exception | None = None
        self.watch: Watch[ServerConnection] = Watch(clock, _limits(settings), self.counters)
        #: Bytes of requests with pending answers.
        self.pending_bytes = 0
        bounds = SessionLimits(settings.shortest_session_ms, settings.longest_session_ms)
        self._new_host = partial(
            TreeHost,
            journal=self.storage,
            clock=clock,
            random_bytes=random_bytes,
            limits=bounds,
            failed=self._journal_failed,
            wall=clock.seconds if wall is None else wall,
        )
        self._failed = failed
        self._host: TreeHost | None = None
        self._refused_at: float | None = None
        self._stopped: OneTimeEvent | None = None
        self._reopening = Reopening(clock, threads, self.storage, self._reopened, self._not_reopened)

    @property
    def host(self) -> TreeHost:
        """The host of the tree. Only after ``start``."""
        assert self._host is not None
        return self._host

    @property
    def tree(self) -> Tree:
        """The tree in memory: ahead of what is flushed."""
        return self.host.tree

    @property
    def serving(self) -> bool:
        """True while requests are answered."""
        return self._host is not None and self._host.serving

    @property
    def last_zxid(self) -> int:
        """The last change, flushed or not."""
        return self.tree.zxid

    @property
    def flushed(self) -> int:
        """The last change that is on the disk: the last one that a client may learn of."""
        return self.storage.journal.flushed

    @property
    def problem(self) -> str | None:
        """The reason why changes cannot be made, for a person; None when they can."""
        if self.error is not None:
            return f"the coordination tree is not served, and is retried every {LONGEST_SECONDS:.0f} s: {self.error}"
        refused = self.storage.refused
        if refused is not None:
            return f"the coordination tree in {self.folder} waits for its disk: {refused}"
        return None

    def start(self) -> None:
        """Open the folder and recover what is in it. Blocks. Raises DataDirectoryError, naming file and remedy."""
        self._serve(self.storage.open())

    def start_when_sound(self) -> None:
        """Open the folder as ``start`` does; if that fails, log why and retry until it succeeds. Blocks once."""
        try:
            self.start()
        except DataDirectoryError as error:
            self._not_reopened(error)
            self._reopening.begin()

    def _serve(self, tree: Tree) -> None:
        tree.watches.limit_bytes = self.settings.watches_bytes
        tree.limit(self.settings.nodes, self.settings.nodes_bytes)
        if self._host is not None:
            self._host.resume(tree)
            return
        self._host = self._new_host(tree)
        self._host.start()
        self.counters.started_at = self.clock.seconds()

    def stop(self) -> Deferred[None]:
        """Close every connection (sessions live on in the folder); fires when the folder is unlocked. Never fails."""
        if self._stopped is None:
            stopped = self._stopped = OneTimeEvent()
            if self._host is None:
                self._reopening.end(stopped.happen)
            else:
                self._host.stop()
                self.admission.stop()
                for connection in tuple(self.connections):
                    connection.close(drain=False)
                self.watch.stop()
                # The connections are gone one turn later.
                self._reopening.end(lambda: self.clock.callLater(0, stopped.happen))
        return self._stopped.wait()

    def answer_word(self, word: bytes, address: str = "") -> bytes:
        """Return the answer to a four-letter word that came from ``address``."""
        return answer_word(self, word) if self.admission.answers(word, address) else b""

    @property
    def connections(self) -> OpenConnections[ServerConnection]:
        """The connections that are open, in the order in which they came."""
        return self.watch.open

    # Called by connections.

    def opened(self, connection: ServerConnection) -> bool:
        """Count a new connection; return False if it must be closed at once."""
        if not self.serving:
            return False
        self.counters.connections_accepted += 1
        if not self.watch.open.admit(connection):
            return False
        if self.watch.handshakes is not None:
            self.watch.handshakes.begin(connection)
        return True

    def left(self, connection: ServerConnection) -> None:
        """Forget a connection that is lost or about to be closed."""
        self.watch.leave(connection)
        self.admission.left(connection)

    def demand_change(self, zxid: int) -> None:
        """Raise ProtocolViolation if a client has seen a change that was not made here."""
        if zxid > self.last_zxid:
            raise ProtocolViolation(
                f"the client has seen change {zxid:#x}, the last one here is {self.last_zxid:#x}: "
                "it was connected to another server, or this one has lost data"
            )

    def is_held_up(self) -> bool:
        """Return whether a new session is refused since the disk stands still; count the refusal.

        Clients that reconnect meanwhile would leave a session or a pending request each time.
        """
        held_up = self.host.held_back * REQUEST_BYTES >= self.settings.pending_bytes
        self.counters.connections_refused += held_up
        return held_up

    def answered(self, peer: str, seconds: float, outcome: Outcome) -> None:
        """Count an answer; log once a minute that the tree has reached a bound: the answer has no text."""
        self.counters.answered(seconds)
        answer = outcome.answer
        error = answer.error if isinstance(answer, MultiFailed) else answer
        if not isinstance(error, SystemFailure):
            return
        now = self.clock.seconds()
        if self._refused_at is None or now - self._refused_at >= _REFUSED_SECONDS:
            self._refused_at = now
            self.log.error("{peer}: refused, {error}", peer=peer, error=str(error))

    def _journal_failed(self, error: Exception) -> None:
        self.error = error
        self.log.critical(
            "{error}. Connections are closed, sessions are kept, and the folder is recovered as at a start",
            error=str(error),
        )
        for connection in tuple(self.connections):
            connection.close(drain=False)
        self._failed(error)
        self._reopening.begin()

    def _reopened(self, tree: Tree) -> None:
        self.error = None
        self._serve(tree)
        self.log.warn("the coordination tree in {folder} is served again", folder=self.folder)

    def _not_reopened(self, error: Exception) -> None:
        if str(error) != str(self.error):
            self.log.critical("the coordination tree is not served: {error}", error=str(error))
        self.error = error

    def _report(self, format: str, **fields: Any) -> None:  # noqa: A002
        self.log.warn(format, **fields)


class _ServerFactory(Factory):
    noisy = False

    def __init__(self, server: CoordinationServer) -> None:
        self._server = server

    def buildProtocol(self, addr: IAddress | None) -> TwistedProtocol | None:  # noqa: N802
        return ServerConnection(self._server)


def _limits(settings: CoordinationServerSettings) -> ConnectionLimits:
    # Peers that take or say nothing need no limits of their own: their sessions expire.
    return ConnectionLimits(
        settings.pending,
        settings.frames_bytes,
        frame_ms=None,
        send_ms=None,
        idle_ms=None,
        handshake_ms=round(settings.handshake * 1000),
        admission=AdmissionLimits(
            settings.connections, settings.address_connections, "connections", "address_connections"
        ),
    )
