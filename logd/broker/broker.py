"""The broker: opens a session for each connection and reports its health. The service owns the sockets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define, field, frozen

from logd.broker.legacy.session import LegacySession
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.session import BrokerSession
from logd.broker.security.administration_log import TREE
from logd.broker.security.authentication import CERTIFICATE
from logd.broker.security.certificates import principal_of
from logd.errors import WireError
from logd.net.server import Connection
from logd.net.session import PauseReason
from logd.security.quotas import Quota
from logd.security.users import User

if TYPE_CHECKING:
    from logd.broker.kafka.session import KafkaSession

AnySession = TypeVar("AnySession", "BrokerSession", "KafkaSession")

#: Seconds for which a refused append counts as a full disk in /health, unless a later append is flushed first.
FULL_SECONDS = 60.0


@define(eq=False)
class Broker(BrokerCore):
    """The broker's core with its sessions."""

    #: Sessions in the order in which they were opened.
    sessions: dict[BrokerSession | KafkaSession, None] = field(factory=dict, init=False)
    #: True once the topics to serve are known; connections wait until then.
    ready: bool = field(default=False, init=False)
    #: Returns the part of /health about the other brokers.
    membership: Callable[[], dict[str, Any]] = field(default=dict, init=False)

    def watch_rights(self) -> None:
        """Have what waits on behalf of clients looked at again whenever access rules change."""
        self.authorizer.on_change(self._rights_changed)

    def take_users(self, users: Mapping[str, User]) -> None:
        """Take the users that the tree has now, and cut off those that were removed or have another password."""
        self.authentication.take(users)
        self.group_access.take(users)
        for session in tuple(self.sessions):
            if not self.authentication.is_current(session.requester):
                session.connection.close(
                    f"the user {session.requester.principal} was removed, or has another password", drain=False
                )

    def seen_in_tree(self, action: str, name: str, **details: Any) -> None:
        """Record a change of users, rules or quotas that somebody has made in the coordination tree."""
        self.administration_log.record(TREE, action, name, **details)

    def take_quotas(self, quotas: Mapping[str, Quota]) -> None:
        """Keep the quotas that the tree has now."""
        self.quotas.take(quotas, self.sessions)

    def _rights_changed(self) -> None:
        for session in tuple(self.sessions):
            session.rights_changed()

    def open_session(self, connection: Connection) -> BrokerSession | None:
        """See ``logd.net.session.SessionOpener``."""
        return self.open(lambda on_lost: BrokerSession(self, connection, on_lost))

    def open(self, make: Callable[[Callable[[AnySession], None]], AnySession]) -> AnySession | None:
        """Open the session that ``make(on_lost)`` returns; return None when the broker is stopping."""
        if self.stopping:
            self.counters.connections_refused += 1
            return None
        session = make(self._forget)
        self._opened(session)
        return session

    def _certified(self, session: BrokerSession | KafkaSession, certificate: Any) -> None:
        """Take the client of a connection for the user whom its certificate names, or close the connection."""
        try:
            principal = principal_of(certificate, self.settings.security.security_client_principal)
            self.authentication.prove(session.requester, principal, CERTIFICATE)
            self.quotas.authenticated(session)
        except WireError as error:
            session.connection.close(str(error), drain=False)

    def _opened(self, session: BrokerSession | KafkaSession) -> None:
        self.sessions[session] = None
        session.connection.on_certificate = partial(self._certified, session)
        self.quotas.opened(session)
        self.counters.connections_total += 1
        if not self.ready:
            session.connection.pause(PauseReason.START)

    def begin(self) -> None:
        """Take requests: the topics to serve are known, or the tree was not reached in time."""
        if not self.ready:
            self.ready = True
            for session in tuple(self.sessions):
                session.connection.resume(PauseReason.START)

    def stop(self) -> None:
        """Refuse new sets and answer waiting fetches. Connections stay open to take their answers."""
        self.stopping = True
        self.operations.stop()
        self.kafka_groups.stop()
        self.group_access.stop()
        self.quotas.stop()
        self.administration_log.stop()
        for session in tuple(self.sessions):
            session.stop()

    def stop_kafka(self) -> None:
        """Refuse new sets of clients of today's Kafka; all others are served as before."""
        for session in tuple(self.sessions):
            if session.protocol == "kafka":
                session.stop()

    def health(self) -> dict[str, Any]:
        """Return the content of /health; ``status`` is "ok" only when every partition is served and takes messages."""
        offline = {f"{log.topic}-{log.partition}": str(log.offline) for log in self.store.logs() if log.offline}
        now = self.clock.seconds()
        full = [
            f"{log.topic}-{log.partition}"
            for log in self.store.logs()
            if log.refused_full is not None and now - log.refused_full < FULL_SECONDS
        ]
        lost = {f"{log.topic}-{log.partition}": log.loss for log in self.store.logs() if log.loss}
        damaged = self.healing.damaged.describe()
        others = self.membership()
        replicas = self.replication.figures()
        degraded = offline or lost or damaged or replicas.leaderless or others.get("problem") or others.get("conflicts")
        status = "stopping" if self.stopping else "degraded" if degraded else "full" if full else "ok"
        return {
            "status": status,
            "broker": self.store.broker_id,
            "partitions": len(self.store.logs()),
            "offline": offline,
            "lost": lost,
            "full": full,
            **({"damaged": damaged} if damaged else {}),
            "connections": len(self.sessions),
            **self._kafka_health(),
            **({"replicas": replicas._asdict()} if replicas.replicas else {}),
            "unflushed_bytes": self.store.unflushed_bytes,
            **others,
        }

    def _kafka_health(self) -> dict[str, Any]:
        """Return what /health tells of the listeners for clients of today's Kafka; nothing without any."""
        addresses = self.addresses.own_kafka
        return {"kafka": [f"{host}:{port}" for host, port in addresses]} if addresses else {}

    def _forget(self, session: BrokerSession | KafkaSession) -> None:
        if session in self.sessions:
            del self.sessions[session]
        self.quotas.closed(session)
        self.gate.discard(session.connection)


@frozen
class LegacySessions:
    """Opens the sessions of a listener for clients of Kafka 0.7 that use ZooKeeper."""

    _broker: Broker

    def open_session(self, connection: Connection) -> BrokerSession | None:
        """See ``logd.net.session.SessionOpener``."""
        broker = self._broker
        return broker.open(lambda on_lost: LegacySession(broker, connection, on_lost))
