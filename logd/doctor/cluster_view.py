"""Reads from the coordination tree what an examination asks of the cluster. Changes nothing."""

from __future__ import annotations

from contextlib import suppress

from logd.coord import paths
from logd.coord.errors import BadVersion, CoordinationError, NoAuth, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.registries.brokers import read_brokers
from logd.coord.registries.topics import decode_entry
from logd.doctor.losses import ClusterContents
from logd.topic import TopicEntry

#: A version that no node reaches: a change that names it is refused, by the access list or by the version.
NEVER = 2_147_483_646
_SCHEMAS = "/schemas/ids"


async def read_cluster(tree: ICoordination) -> ClusterContents:
    """Return what the tree knows; nodes that cannot be read are left out. Raises CoordinationError."""
    brokers = {number: info.version for number, info in (await read_brokers(tree)).items()}
    topics: dict[str, TopicEntry] = {}
    for name in await _names(tree, paths.BROKER_TOPICS, []):
        with suppress(NoNode, ValueError):
            topics[name] = decode_entry(name, (await tree.get(paths.topic(name)))[0])
    hidden: list[str] = []
    groups = await _names(tree, paths.CONSUMERS, hidden)
    users, schemas = len(await _names(tree, paths.USERS, hidden)), len(await _names(tree, _SCHEMAS, hidden))
    return ClusterContents(brokers, topics, groups, users, schemas, hidden=bool(hidden))


async def may_change(stranger: ICoordination) -> bool | None:
    """Return whether a client without credentials may change the brokers' nodes: asks for a change of no version."""
    try:
        await stranger.set(paths.BROKER_TOPICS, b"", NEVER)
    except BadVersion:
        return True
    except NoAuth:
        return False
    except CoordinationError:
        return None
    return True


async def may_read(stranger: ICoordination) -> bool | None:
    """Return whether a client without credentials may read what only brokers should know."""
    for path in (paths.SECRET, paths.USERS):
        try:
            if path == paths.USERS:
                if not await stranger.get_children(path):
                    continue
            else:
                await stranger.get(path)
        except (NoNode, NoAuth):
            continue
        except CoordinationError:
            return None
        return True
    return False


async def _names(tree: ICoordination, path: str, hidden: list[str]) -> list[str]:
    """Return the children of a node; none if it does not exist, or is not told, which is added to ``hidden``."""
    try:
        return await tree.get_children(path)
    except NoNode:
        return []
    except NoAuth:
        hidden.append(path)
        return []
