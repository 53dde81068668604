"""Reads a backup's nodes from a live tree: definitions as they were at one moment, positions as of soon after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from logd.backup.backup_file import Backup
from logd.backup.contents import DEEPEST, DEFINITIONS, GROUP_PARTS, check_node, is_secret
from logd.coord import paths
from logd.coord.errors import NoAuth, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.registries.cluster import read_cluster_uuid
from logd.deferreds.gathering import for_each
from logd.errors import LogdError

#: Nodes that are read at a time.
_AT_ONCE = 100
#: Attempts to read definitions that do not change meanwhile.
ATTEMPTS = 10


class ClusterChanges(LogdError):
    """Definitions changed during each attempt to read them."""


async def read_tree(
    tree: ICoordination, now_ms: Callable[[], int], left_out: Callable[[str, ValueError], None]
) -> Backup:
    """Read the whole backup. Brokers and clients may work meanwhile.

    The definitions (topics, users, rules, quotas, schemas) are read before the positions and again behind them, until
    both are equal: so they stood like this at ``ended_ms``, when the first of the two readings ended (``began_ms`` is
    when it began), and the positions are not older, and of topics that existed. Restored logs begin by ``ended_ms``,
    which is thus not after the time of any position. ``left_out(path, error)`` is called for each node that is not what
    logd writes. Raises CoordinationError, NoAuth with a remedy among them, and ClusterChanges.
    """
    try:
        for _ in range(ATTEMPTS):
            began = now_ms()
            definitions = await read_all(tree, DEFINITIONS)
            ended = now_ms()
            positions = await _read_positions(tree)
            if definitions == await read_all(tree, DEFINITIONS):
                break
        else:
            raise ClusterChanges(
                f"topics, users or schemas changed during each of {ATTEMPTS} attempts to read them at one moment: try "
                "again when nobody creates or changes some"
            )
        cluster = await read_cluster_uuid(tree)
    except NoAuth as error:
        raise NoAuth(
            f"{error}; give the credentials of the brokers (LOGD_ZOOKEEPER_DIGEST_FILE), who alone may read it",
            error.path,
        ) from error
    nodes = {}
    for path, data in {**positions, **definitions}.items():
        try:
            check_node(path, data)
        except ValueError as error:
            if not _is_parent(path):
                left_out(path, error)
        else:
            nodes[path] = data
    return Backup(cluster, began, ended, nodes)


async def _read_positions(tree: ICoordination) -> dict[str, bytes]:
    found = {}
    groups = await _children(tree, paths.CONSUMERS)
    for group in groups:
        found[f"{paths.CONSUMERS}/{group}"] = b""
    parts = [f"{paths.CONSUMERS}/{group}/{part}" for group in groups for part in GROUP_PARTS]
    found.update(await read_all(tree, (*parts, paths.STORED, paths.PRODUCER_IDS)))
    return found


async def read_all(tree: ICoordination, roots: Iterable[str]) -> dict[str, bytes]:
    """Return the nodes at and below ``roots``; those that vanish meanwhile are left out."""
    found: dict[str, bytes] = {}
    level = list(roots)
    while level:
        below: list[str] = []

        async def read(path: str, below: list[str] = below) -> None:
            try:
                data, stat = await tree.get(path)
                if stat.ephemeral_owner:
                    return
                found[path] = data
                if stat.children_count and path.count("/") < DEEPEST:
                    children = [f"{path}/{name}" for name in await tree.get_children(path)]
                    below.extend(each for each in children if not is_secret(each))
            except NoNode:
                pass

        await for_each(level, read, _AT_ONCE)
        level = below
    return found


async def _children(tree: ICoordination, path: str) -> list[str]:
    try:
        return await tree.get_children(path)
    except NoNode:
        return []


def _is_parent(path: str) -> bool:
    """Return whether a node is there for those below it alone, which make it again."""
    words = path.split("/")[1:]
    match words:
        case ["brokers", "topics" | "stored" | "deleted"] | ["brokers", "topics", _, "partitions", *_]:
            return True
        case ["brokers", "stored", _] | ["consumers", _, "offsets" | "metadata"]:
            return True
        case ["consumers", _, "offsets" | "metadata", _]:
            return True
    return False
