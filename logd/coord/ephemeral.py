"""Ephemeral nodes that are known to be one's own: claims that survive lost replies and sessions of the past.

A reply to a create can be lost while the node was made, and a node of an earlier session of ours may still be there.
What decides is whose session the node ends with (its ``ephemeral_owner``), never that a create was refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred

from logd.coord.errors import BadVersion, ConnectionLoss, CoordinationError, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import OPEN_ACL, Acl, Stat

#: How often something is begun again when the connection is lost, or when somebody else is at the same node.
ATTEMPTS = 20


class HeldElsewhere(NodeExists):
    """Somebody else's node is there: ``data`` is what it says, ``stat`` whose session it ends with."""

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
    """Make an ephemeral node of our session with ``data``, or find that it is there already; cancellable.

    A node of our own session counts as made, with its data replaced where they differ. A node of another session whose
    data are ours (``same(its data)``; by default, equal to ``data``) is of our own past: it is deleted at the version
    that was seen, and made again. ``timeout``, in seconds, is that of each step.

    Fails with HeldElsewhere (a NodeExists) when somebody else has it; with OperationTimeout, SessionExpired,
    ClientClosing and the rest of ICoordination's errors as they come, and with ConnectionLoss after ATTEMPTS of them.
    After OperationTimeout the node may still come to be: call again, or ``release_ephemeral``.
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
    """Delete the node if it is of our own session; fires with whether it was. Another's is left alone.

    Fails as ``create_ephemeral`` does. A reply to the deletion that was lost makes it look again, and then the answer
    may be False although this call deleted the node.
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
