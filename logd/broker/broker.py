"""One broker: its logs, topics and connections, and what all connections share. The service has the sockets."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.counters import Counters
from logd.broker.pressure import ProducerGate
from logd.broker.routing import Routing
from logd.broker.session import BrokerSession
from logd.config import BrokerSettings
from logd.errors import TopicExists
from logd.interfaces import Clock, IThreads, ITopics
from logd.log.store import LogStore
from logd.net.server import Connection
from logd.topic import TopicEntry

#: Seconds for which a refusal for want of room counts, unless a later append is flushed first.
FULL_SECONDS = 60.0


class Broker:
    """Opens a session for each connection and answers its requests from the store."""

    log = Logger()

    def __init__(
        self,
        settings: BrokerSettings,
        store: LogStore,
        topics: ITopics,
        threads: IThreads,
        clock: Clock,
        gate: ProducerGate,
    ) -> None:
        """``threads`` is where blocking reads run; ``gate`` is told by the store when too much waits for the disk."""
        self.settings = settings
        self.store = store
        self.topics = topics
        self.threads = threads
        self.clock = clock
        self.counters = Counters()
        self.gate = gate
        self.routing = Routing(store, topics, self.counters, clock, settings.topics_create, store.flusher.due_now)
        self.sessions: set[BrokerSession] = set()
        #: Partitions that are being repaired.
        self.repairs: set[tuple[str, int]] = set()
        self.stopping = False
        #: (host, port) that clients are told to connect to.
        self.advertised: tuple[str, int] = ("127.0.0.1", 0)
        self._creating: dict[str, list[Deferred[None]]] = {}

    def open_session(self, connection: Connection) -> BrokerSession | None:
        """See ``logd.net.server.SessionOpener``; None when there are too many connections or the broker stops."""
        if self.stopping or len(self.sessions) >= self.settings.connections_max:
            self.counters.connections_refused += 1
            if self.counters.connections_refused & (self.counters.connections_refused - 1) == 0:
                self.log.warn(
                    "refused the connection of {peer}: connections.max = {limit} are open ({refused} refused so far)",
                    peer=connection.peer,
                    limit=self.settings.connections_max,
                    refused=self.counters.connections_refused,
                )
            return None
        session = BrokerSession(self, connection)
        self.sessions.add(session)
        self.counters.connections_total += 1
        return session

    def forget(self, session: BrokerSession) -> None:
        """A connection is gone."""
        self.sessions.discard(session)
        self.gate.discard(session.connection)

    def stop(self) -> None:
        """Refuse new sets and answer what waits for messages; connections stay, to be given their answers."""
        self.stopping = True
        for session in tuple(self.sessions):
            session.stop()

    def gate_producer(self, session: BrokerSession) -> None:
        """A connection produces: it is paused with the others while too much waits for the disk."""
        self.gate.add(session.connection)

    def create_on_demand(self, topic: str) -> Deferred[None]:
        """Create a topic that a client used; connections that ask at the same time share the creation.

        Fails as ``ITopics.create`` does, but not with TopicExists.
        """
        waiter: Deferred[None] = Deferred()
        waiters = self._creating.get(topic)
        if waiters is not None:
            waiters.append(waiter)
            return waiter
        self._creating[topic] = [waiter]
        creating: Deferred[TopicEntry] = self.topics.create(topic, self.settings.topics_partitions, {})
        creating.addErrback(lambda failure: failure.trap(TopicExists))
        creating.addBoth(self._created, topic)
        return waiter

    def health(self) -> dict[str, Any]:
        """What /health shows; ``status`` is "ok" only when every partition is served and takes messages."""
        offline = {f"{log.topic}-{log.partition}": str(log.offline) for log in self.store.logs() if log.offline}
        now = self.clock.seconds()
        full = [
            f"{log.topic}-{log.partition}"
            for log in self.store.logs()
            if log.refused_full is not None and now - log.refused_full < FULL_SECONDS
        ]
        status = "stopping" if self.stopping else "degraded" if offline else "full" if full else "ok"
        return {
            "status": status,
            "broker": self.store.broker_id,
            "partitions": len(self.store.logs()),
            "offline": offline,
            "full": full,
            "connections": len(self.sessions),
            "unflushed_bytes": self.store.unflushed_bytes,
        }

    def _created(self, result: Any, topic: str) -> None:
        for waiter in self._creating.pop(topic):
            if isinstance(result, TopicEntry) or result is TopicExists:
                waiter.callback(None)
            else:
                waiter.errback(result)
