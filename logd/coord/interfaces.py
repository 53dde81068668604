"""The coordination tree as logd uses it: an interface of Deferreds, modelled on txzookeeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from logd.coord.records import ANY_VERSION, OPEN_ACL, Acl, Operation, SessionState, Stat, WatchEvent


class ICoordination(Interface):
    """A client of one coordination tree, with one session at a time. For the reactor's thread alone.

    Every call that waits returns a cancellable Deferred, which fails with a CoordinationError:

    - ConnectionLoss when the connection is lost before the answer: the change may or may not have been made;
    - OperationTimeout after ``timeout`` seconds (None: the client's setting);
    - SessionExpired when the session ended meanwhile;
    - ClientClosing after ``close``;
    - NoNode, NodeExists, BadVersion, NotEmpty, NoChildrenForEphemerals, NoAuth, InvalidAcl, BadArguments as ZooKeeper
      answers them.

    A call made while the session is suspended waits, for at most its timeout. Calls are answered in order, and a watch
    fires before any answer that shows the change it reports.

    The ``_and_watch`` forms return two Deferreds: the answer, and the watch. The watch fires once, with a WatchEvent,
    and never fails. When the connection is lost, it fires with EventType.SESSION and is forgotten; its owner reads
    again once the session is connected. When the answer fails, the watch never fires; ``exists_and_watch`` answers None
    for a missing node instead of NoNode. Cancelling a watch forgets it.
    """

    state = Attribute("The current SessionState.")
    session_id = Attribute("The session's id; 0 before the first connection. It changes after LOST and CONNECTED.")
    session_timeout = Attribute("The session's timeout in seconds, as agreed with the server.")
    access_lists = Attribute("AccessLists: the access lists of nodes that are created without one.")
    last_contact = Attribute("The time of the last contact with the server, in the clock's seconds.")

    def connect(timeout: float | None = None) -> Deferred[ICoordination]:
        """Open a session; fires with this client. Closes and fails with OperationTimeout if that takes longer.

        Stays connected from then on: other servers are tried, and a lost session is replaced.
        """

    def subscribe(listener: Callable[[SessionState], None]) -> Callable[[], None]:
        """Call ``listener(state)`` at each change of the session from now on; return a function that ends that.

        After CONNECTED, watches must be left again; after LOST, ephemeral nodes must be created again.
        """

    def create(
        path: str,
        data: bytes = b"",
        *,
        acl: Sequence[Acl] = OPEN_ACL,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        timeout: float | None = None,
    ) -> Deferred[str]:
        """Create a node; fires with its path, sequence number included. ``makepath`` creates missing parents."""

    def get(path: str, timeout: float | None = None) -> Deferred[tuple[bytes, Stat]]:
        """Read a node's data and Stat."""

    def get_and_watch(
        path: str, timeout: float | None = None
    ) -> tuple[Deferred[tuple[bytes, Stat]], Deferred[WatchEvent]]:
        """Read as ``get`` does; the watch reports the next change of the data, or the deletion of the node."""

    def exists(path: str, timeout: float | None = None) -> Deferred[Stat | None]:
        """Read a node's Stat; None when there is no such node."""

    def exists_and_watch(path: str, timeout: float | None = None) -> tuple[Deferred[Stat | None], Deferred[WatchEvent]]:
        """Read as ``exists`` does; the watch also reports the creation of the node."""

    def get_children(path: str, timeout: float | None = None) -> Deferred[list[str]]:
        """Read the names of a node's children, sorted."""

    def get_children_and_watch(
        path: str, timeout: float | None = None
    ) -> tuple[Deferred[list[str]], Deferred[WatchEvent]]:
        """Read as ``get_children`` does; the watch reports the next new or deleted child, or the node's deletion."""

    def set(path: str, data: bytes, version: int = ANY_VERSION, timeout: float | None = None) -> Deferred[Stat]:
        """Replace a node's data; fires with its new Stat."""

    def delete(path: str, version: int = ANY_VERSION, timeout: float | None = None) -> Deferred[None]:
        """Delete a node that has no children."""

    def get_acl(path: str, timeout: float | None = None) -> Deferred[tuple[tuple[Acl, ...], Stat]]:
        """Read a node's access list and Stat. A client that may not administer the node sees no digests."""

    def set_acl(
        path: str, acl: Sequence[Acl], version: int = ANY_VERSION, timeout: float | None = None
    ) -> Deferred[Stat]:
        """Replace a node's access list; ``version`` is that of the list. Fires with the node's new Stat."""

    def multi(operations: Sequence[Operation], timeout: float | None = None) -> Deferred[list[str | Stat | None]]:
        """Do all of the operations or none: fires with the path of each Create, the Stat of each SetData, else None.

        Fails with the error of the first operation that cannot be done.
        """

    def sync(path: str = "/", timeout: float | None = None) -> Deferred[None]:
        """Fire once this client's server knows every change made before the call."""

    def authenticate(user: str, password: str, timeout: float | None = None) -> Deferred[None]:
        """Act as this user too, by scheme digest, on this connection and all later ones; fires once the server knows.

        The access lists of nodes that are created without one do not change by it.
        """

    def close() -> Deferred[None]:
        """End the session, so that its ephemeral nodes are deleted at once; fires when that is done. Never fails."""
