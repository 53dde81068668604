"""A connection's attachment to a session of a hosted tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from logd.coord.records import Identity, Request, WatchEvent
from logd.coord.tree.interfaces import CutReason, IAttached
from logd.coord.tree.outcome import Outcome
from logd.coord.tree.sessions import TreeSession

if TYPE_CHECKING:
    from logd.coord.tree.tree_host import TreeHost

#: Characters that the identities of one connection may take: some dozens of them.
IDENTITIES_CHARACTERS = 4096


class Attachment:
    """One connection's attachment to a session. Made by TreeHost.open_session and TreeHost.attach."""

    def __init__(
        self,
        host: TreeHost,
        session: TreeSession,
        listener: IAttached,
        identities: tuple[Identity, ...],
        is_first: bool,
    ) -> None:
        self.session = session
        #: The session was opened by this connection.
        self.is_first = is_first
        #: The identities of this connection for access lists: ``authenticated`` adds to them.
        self.identities = identities
        #: False once the connection was cut, detached or closed; every call is then ignored.
        self.attached = True
        self._host = host
        self._listener = listener

    def execute(self, request: Request, answered: Callable[[Outcome], None]) -> None:
        """Execute a request; call ``answered(outcome)`` once it may be told, perhaps before this returns.

        ``answered`` is never called once the connection is cut or detached.
        """
        if self.attached:
            self._host.execute(self, request, answered)

    def heard(self) -> None:
        """Keep the session alive, since its client sent a ping or anything else."""
        if self.attached:
            self._host.heard(self.session.id)

    def authenticated(self, identity: Identity) -> bool:
        """Add an identity of the client; return False, without a change, when it has too many."""
        if identity not in self.identities:
            if sum(len(each.id) for each in self.identities) + len(identity.id) > IDENTITIES_CHARACTERS:
                return False
            self.identities = (*self.identities, identity)
        return True

    def close(self, closed: Callable[[], None]) -> None:
        """End the session, as its client asked.

        ``closed()`` is called once that is flushed, after the answers still due. The attachment ends with it.
        """
        if self.attached:
            self._host.close(self, closed)

    def detach(self) -> None:
        """Forget the watches of a connection that is gone; the session lives on until it expires."""
        if self.attached:
            self._host.detach(self)

    # For the host

    def notified(self, zxid: int, event: WatchEvent) -> None:
        """Notify the connection of a watch, if it is still there."""
        if self.attached:
            self._listener.notified(zxid, event)

    def cut(self, reason: CutReason) -> None:
        """Cut the connection, if it is still there."""
        if self.attached:
            self.attached = False
            self._listener.cut(reason)
