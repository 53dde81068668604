"""The coordination tree as logd uses it: an interface of Deferreds in the manner of txzookeeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from logd.coord.records import ANY_VERSION, OPEN_ACL, Acl, Operation, SessionState, Stat, WatchEvent


class ICoordination(Interface):
    """A client of one coordination tree, with one session at a time. For the reactor's thread alone.

    Every call that waits returns a cancellable Deferred, which fails with a CoordinationError:

    - ConnectionLoss when the connection is lost before the answer: the change may have been made, or not;
    - OperationTimeout after ``timeout`` seconds (None: the client's setting);
    - SessionExpired when the session ended meanwhile;
    - ClientClosing after ``close``;
    - NoNode, NodeExists, BadVersion, NotEmpty, NoChildrenForEphemerals, NoAuth, InvalidAcl, BadArguments as ZooKeeper
      answers them.

    A call made while the session is suspended waits, at most its timeout. Calls are answered in their order, and a
    watch fires before anything is answered that shows what it tells of.

    The ``_and_watch`` forms return two Deferreds: the answer, and the watch. The watch fires once, with a WatchEvent,
    and never fails. It fires with EventType.SESSION when the connection is lost: it is forgotten then, and its owner
    reads again once the session is connected. When the answer fails, the watch never fires (but NoNode from
    ``exists_and_watch`` does not happen: its answer is None). Cancelling a watch forgets it.
    """

    state = Attribute("The SessionState at this moment.")
    session_id = Attribute("The session's id; 0 before the first connection. After LOST and CONNECTED it is another.")
    session_timeout = Attribute("The session's timeout in seconds, as agreed with the server.")
    last_contact = Attribute("When the server was last heard of, in the clock's seconds.")

    def connect(timeout: float | None = None) -> Deferred[ICoordination]:
        """Open a session; fires with the client itself. Fails with OperationTimeout, and closes, if that takes longer.

        Once connected it stays so by itself: other servers are tried, and a session that was lost is replaced.
        """

    def subscribe(listener: Callable[[SessionState], None]) -> Callable[[], None]:
        """Call ``listener(state)`` at each change of the session from now on; what is returned ends that.

        After a CONNECTED watches are to be left again; after a LOST, ephemeral nodes are to be made again.
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
        """Make a node; fires with its path (with its number, if ``sequence``). ``makepath`` makes missing parents."""

    def get(path: str, timeout: float | None = None) -> Deferred[tuple[bytes, Stat]]:
        """A node's data and Stat."""

    def get_and_watch(
        path: str, timeout: float | None = None
    ) -> tuple[Deferred[tuple[bytes, Stat]], Deferred[WatchEvent]]:
        """Like ``get``; the watch tells of the next change of the data, or of the node's end."""

    def exists(path: str, timeout: float | None = None) -> Deferred[Stat | None]:
        """A node's Stat, None when there is no such node."""

    def exists_and_watch(path: str, timeout: float | None = None) -> tuple[Deferred[Stat | None], Deferred[WatchEvent]]:
        """Like ``exists``; the watch tells also of the node's beginning."""

    def get_children(path: str, timeout: float | None = None) -> Deferred[list[str]]:
        """The names of a node's children, sorted."""

    def get_children_and_watch(
        path: str, timeout: float | None = None
    ) -> tuple[Deferred[list[str]], Deferred[WatchEvent]]:
        """Like ``get_children``; the watch tells of the next child that comes or goes, or of the node's end."""

    def set(path: str, data: bytes, version: int = ANY_VERSION, timeout: float | None = None) -> Deferred[Stat]:
        """Replace a node's data; fires with its new Stat."""

    def delete(path: str, version: int = ANY_VERSION, timeout: float | None = None) -> Deferred[None]:
        """Remove a node that has no children."""

    def multi(operations: Sequence[Operation], timeout: float | None = None) -> Deferred[list[str | Stat | None]]:
        """All of the operations or none: the new path of each Create, the Stat of each SetData, else None.

        Fails with the error of the first operation that could not be done.
        """

    def sync(path: str = "/", timeout: float | None = None) -> Deferred[None]:
        """Fires once this client's server knows every change that was made before the call."""

    def close() -> Deferred[None]:
        """End the session, so that its ephemeral nodes go at once; fires when that is done. Never fails."""
