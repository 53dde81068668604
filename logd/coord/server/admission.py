"""Admits to a tree that other machines reach only those who prove to be one of its brokers or users.

Brokers and administrators have the credentials that the server was given. A user is known by the digest that brokers
keep in ``/security/users``, at the root or below the path that a cluster has for itself. Nodes that others than brokers
can change prove nobody. Whoever has not proved anything may open a session, send credentials and pings,
and end the session; every other request is answered NoAuth, and the connection ends after the time of a handshake.
"""

from __future__ import annotations

from hmac import compare_digest
from ipaddress import ip_address
from itertools import islice
from typing import TYPE_CHECKING

from attrs import define, field

from logd.checkedjson import load_json
from logd.coord.access_lists import Audience, BrokerAccess, Protection
from logd.coord.errors import NoAuth
from logd.coord.records import Identity
from logd.coord.server.wire.requests import Auth, Call, CloseSession, Ping
from logd.coord.tree.attachment import Attachment
from logd.coord.tree.nodes import Node
from logd.interfaces import Timer

if TYPE_CHECKING:
    from logd.coord.server.connection import ServerConnection
    from logd.coord.server.server import CoordinationServer

#: Seconds that a connection waits which has shown credentials and is not admitted.
GUESS_SECONDS = 1.0
#: Seconds between two looks for users that were removed or have another password.
_LOOK_SECONDS = 0.5
#: Clusters of one tree in which a user is looked for. Whoever is admitted may make nodes that look like users.
_MOST_CLUSTERS = 1000
#: Digests that are remembered.
_MOST_DIGESTS = 10_000
#: The requests of a client that has not proved anything.
_BEFORE = (Ping, Auth, CloseSession)
#: The words that tell everybody whether the tree is served, and nothing else.
_HARMLESS = (b"ruok", b"isro")
_REFUSAL = (
    "this coordination tree demands credentials of clients: those of its brokers (zookeeper.digest.*, "
    "LOGD_ZOOKEEPER_DIGEST_FILE), or a user of the cluster (LOGD_USER)"
)


@define(eq=False)
class TreeAdmission:
    """Tells who may use the tree of one server: everybody, until credentials are demanded."""

    _server: CoordinationServer
    #: The ids of scheme ``digest`` that brokers have; empty: nothing is demanded.
    own: tuple[str, ...] = field(default=(), init=False)
    #: The connections that proved something, each with what proved it: a user's digest, None for a broker.
    _admitted: dict[ServerConnection, str | None] = field(factory=dict, init=False)
    #: The digest in a user's node, by the path; read again when the node has changed.
    _digests: dict[str, tuple[Node, str | None]] = field(factory=dict, init=False)
    _timer: Timer | None = field(default=None, init=False)

    def demand(self, own: tuple[str, ...]) -> None:
        """Admit brokers, whose ids of scheme ``digest`` these are, and users. Called before the first connection."""
        self.own = own

    def checked(self, connection: ServerConnection, call: Call) -> Call:
        """Return a request as it is, or as one that is answered NoAuth."""
        if not self.own or connection in self._admitted or isinstance(call.asked, _BEFORE):
            return call
        return call._replace(asked=NoAuth(_REFUSAL))

    def began(self, connection: ServerConnection) -> None:
        """Note that a connection has a session. Where nothing is demanded, its handshake is over."""
        handshakes = self._server.watch.handshakes
        if handshakes is not None and not self.own:
            handshakes.end(connection)

    def showed(self, connection: ServerConnection, identity: Identity) -> bool:
        """Note the credentials of a connection; return whether it is admitted, by these or by earlier ones."""
        if not self.own or connection in self._admitted:
            return True
        if any(compare_digest(each.encode(), identity.id.encode()) for each in self.own):
            self._admitted[connection] = None
        elif self._is_user(identity.id):
            self._admitted[connection] = identity.id
            self._look_soon()
        else:
            return False
        if self._server.watch.handshakes is not None:
            self._server.watch.handshakes.end(connection)
        return True

    def ended(self, connection: ServerConnection, attachment: Attachment) -> None:
        """Let go of a connection's session. One that a stranger has opened ends: nobody needs it."""
        if self.own and connection not in self._admitted and attachment.is_first:
            attachment.close(lambda: None)
        else:
            attachment.detach()
        self.left(connection)

    def left(self, connection: ServerConnection) -> None:
        """Forget a connection."""
        self._admitted.pop(connection, None)

    def answers(self, word: bytes, address: str) -> bool:
        """Return whether a four-letter word is answered to an address: of this machine, or one that shows nothing."""
        return not self.own or word in _HARMLESS or not address or ip_address(address.partition("%")[0]).is_loopback

    def stop(self) -> None:
        """Stop looking for users that were removed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_soon(self) -> None:
        if self._timer is None:
            self._timer = self._server.clock.callLater(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Cut the connections of users that are gone."""
        self._timer = None
        users = [(connection, digest) for connection, digest in self._admitted.items() if digest is not None]
        for connection, digest in users:
            if not self._is_user(digest):
                connection.close(f"{digest.partition(':')[0]} is no user any more, or has another password")
        if users:
            self._look_soon()

    def _is_user(self, digest: str) -> bool:
        nodes = islice(self._server.tree.users(digest.partition(":")[0]), _MOST_CLUSTERS)
        kept = [self._digest_at(path) for path in nodes]
        return any(each is not None and compare_digest(each.encode(), digest.encode()) for each in kept)

    def _digest_at(self, path: str) -> str | None:
        node = self._server.tree.nodes[path]
        known = self._digests.get(path)
        if known is None or known[0] is not node:
            if len(self._digests) >= _MOST_DIGESTS:
                self._digests.clear()
            known = self._digests[path] = (node, self._digest_of(node))
        return known[1]

    def _digest_of(self, node: Node) -> str | None:
        if BrokerAccess(self.own).state(Audience.SECRET, node.acl) is not Protection.PROTECTED:
            return None
        try:
            return str(load_json(node.data)["digest"])
        except Exception:  # a node that is no user proves nobody; brokers name it in their logs
            return None
