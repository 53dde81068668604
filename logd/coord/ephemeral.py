"""Creates and releases ephemeral nodes safely, in spite of lost replies and nodes left by earlier sessions.

The reply to a create can be lost although the node was made, and a node of an earlier session may still be there.
The session that the node ends with (its ``ephemeral_owner``) decides, never the fact that a create was refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred

from logd.coord.errors import BadVersion, ConnectionLoss, CoordinationError, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import OPEN_ACL, Acl, Stat

#: Attempts when the connection is lost, or when another client changes the same node.
ATTEMPTS = 20


class HeldElsewhere(NodeExists):
    """The node belongs to another client: ``data`` is its value, ``stat`` names the session that it ends with."""

    def __init__(self, path: str, data: bytes, stat: Stat) -> None:
        super().__init__(
            f"{path}: held by session 0x{stat.ephemeral_owner & (2**64 - 1):x} with {data[:200]!r}"
            if stat.ephemeral_owner
            else f"{path}: there is a node that is not ephemeral, with {data[:200]!r}",
            path,
        )
        self.data = data
        self.stat = stat


def create_ephemeral(
    coordination: ICoordination,
    path: str,
    data: bytes,
    *,
    same: Callable[[bytes], bool] | None = None,
    acl: Sequence[Acl] = OPEN_ACL,
    makepath: bool = True,
    timeout: float | None = None,
) -> Deferred[None]:
    """Create an ephemeral node of this session with ``data``, or find that it exists already; cancellable.

    A node of this session counts as created; its data are replaced where they differ. A node of another session whose
    data are ours (``same(its data)``; by default, equal to ``data``) is left from an earlier session: it is deleted at
    the version that was read, and created again. ``timeout``, in seconds, applies to each step.

    Fails with HeldElsewhere (a NodeExists) when another client holds the node, and with OperationTimeout,
    SessionExpired, ClientClosing and the other errors of ICoordination. Fails with ConnectionLoss after ATTEMPTS of
    them. After OperationTimeout the node may still appear: call again, or call ``release_ephemeral``.
    """
    ours = same or data.__eq__
    return Deferred.fromCoroutine(_create(coordination, path, data, ours, acl, makepath, timeout))


async def _create(
    coordination: ICoordination,
    path: str,
    data: bytes,
    same: Callable[[bytes], bool],
    acl: Sequence[Acl],
    makepath: bool,
    timeout: float | None,
) -> None:
    last: CoordinationError = ConnectionLoss(path=path)
    for _attempt in range(ATTEMPTS):
        try:
            await coordination.create(path, data, acl=acl, ephemeral=True, makepath=makepath, timeout=timeout)
            return
        except NodeExists:
            pass
        except ConnectionLoss as lost:
            last = lost
            continue
        try:
            found, stat = await coordination.get(path, timeout)
            if stat.ephemeral_owner and stat.ephemeral_owner == coordination.session_id:
                if found != data:
                    await coordination.set(path, data, stat.version, timeout)
                return
            if not stat.ephemeral_owner or not same(found):
                raise HeldElsewhere(path, found, stat)
            await coordination.delete(path, stat.version, timeout)
        except (NoNode, BadVersion, ConnectionLoss) as changed:
            last = changed
    raise last


def release_ephemeral(coordination: ICoordination, path: str, timeout: float | None = None) -> Deferred[bool]:
    """Delete the node if it belongs to this session; fires with True if it did. Other nodes are left alone.

    Fails as ``create_ephemeral`` does. When the reply to the deletion is lost, the node is looked at again; the result
    may then be False although this call deleted the node.
    """
    return Deferred.fromCoroutine(_release(coordination, path, timeout))


async def _release(coordination: ICoordination, path: str, timeout: float | None) -> bool:
    last: CoordinationError = ConnectionLoss(path=path)
    for _attempt in range(ATTEMPTS):
        try:
            stat = await coordination.exists(path, timeout)
            if stat is None or not stat.ephemeral_owner or stat.ephemeral_owner != coordination.session_id:
                return False
            await coordination.delete(path, stat.version, timeout)
            return True
        except NoNode:
            return False
        except (BadVersion, ConnectionLoss) as changed:
            last = changed
    raise last
