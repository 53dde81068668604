"""The broker registry of the paper (section 3.2): an ephemeral node for each live broker, with what is stored on it.

/brokers/ids/<id>    {"host": "10.0.0.5", "port": 6667, "instance": "<uuid>", "topics": {"<topic>": [0, 2], ...}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from attrs import field, frozen

from logd.coord import paths
from logd.coord.errors import BadVersion, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import Stat
from logd.coord.registries.mirror import Mirror
from logd.errors import LogdError
from logd.interfaces import Clock

#: Bytes; ZooKeeper takes no node above 1 MiB. The list of topics informs people, so it is left out beyond this.
MOST_BYTES = 900_000
#: How often a node is taken over that changes hands meanwhile.
ATTEMPTS = 10


class BrokerConflict(LogdError):
    """Another broker is registered under this one's id."""


@frozen
class BrokerInfo:
    """One live broker: where clients connect, and the ``instance`` uuid of its data directory."""

    id: int
    host: str
    port: int
    instance: str
    #: The partitions stored there. Informative: a topic's entry decides.
    topics: Mapping[str, tuple[int, ...]] = field(factory=dict)

    def encode(self) -> bytes:
        """Return the node's value."""
        value = {"host": self.host, "port": self.port, "instance": self.instance}
        topics = {name: list(partitions) for name, partitions in sorted(self.topics.items())}
        data = json.dumps({**value, "topics": topics}).encode()
        return data if len(data) <= MOST_BYTES else json.dumps({**value, "topics": {}}).encode()

    @classmethod
    def decode(cls, name: str, data: bytes) -> BrokerInfo:
        """Read the node ``name``; raise ValueError for what is none of a broker."""
        try:
            value = json.loads(data)
            topics = {str(topic): tuple(map(int, found)) for topic, found in value.get("topics", {}).items()}
            return cls(int(name), str(value["host"]), int(value["port"]), str(value["instance"]), topics)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a broker's entry: {data[:200]!r}") from error


async def register(coordination: ICoordination, info: BrokerInfo) -> None:
    """Have the broker's ephemeral node, with this value, in our own session.

    What a former session of ours left is taken over. Raises BrokerConflict when another broker has the id, and
    CoordinationError.
    """
    path, data = paths.broker(info.id), info.encode()
    for _ in range(ATTEMPTS):
        try:
            await coordination.create(path, data, ephemeral=True, makepath=True)
        except NodeExists:
            pass
        else:
            return
        try:
            found, stat = await coordination.get(path)
            if await _is_settled(coordination, info, data, found, stat):
                return
        except (NoNode, BadVersion):
            continue  # it went away, or changed hands: look again
    raise BrokerConflict(f"{path} changes hands faster than it can be looked at")


async def _is_settled(coordination: ICoordination, info: BrokerInfo, data: bytes, found: bytes, stat: Stat) -> bool:
    """Whether the node is ours now; one of a former session is removed, so that it can be made again."""
    path = paths.broker(info.id)
    other = BrokerInfo.decode(str(info.id), found)
    if other.instance != info.instance:
        raise BrokerConflict(
            f"broker id {info.id} is taken: {path} is of instance {other.instance} at {other.host}:{other.port}, and "
            f"this is instance {info.instance} at {info.host}:{info.port}; give one of them an id (and with it a data "
            "directory) of its own, or stop the other"
        )
    if stat.ephemeral_owner == coordination.session_id:
        if found != data:
            await coordination.set(path, data, stat.version)
        return True
    await coordination.delete(path, stat.version)
    return False


async def deregister(coordination: ICoordination, info: BrokerInfo) -> None:
    """Take the broker's node away, if it is of this session. Raises CoordinationError."""
    try:
        _, stat = await coordination.get(paths.broker(info.id))
        if stat.ephemeral_owner == coordination.session_id:
            await coordination.delete(paths.broker(info.id), stat.version)
    except (NoNode, BadVersion):
        pass


async def read_brokers(coordination: ICoordination) -> dict[int, BrokerInfo]:
    """All live brokers, read once. Raises CoordinationError, and ValueError for a node that is none of a broker."""
    try:
        names = await coordination.get_children(paths.BROKER_IDS)
    except NoNode:
        return {}

    infos = []
    for name in names:
        try:
            infos.append(BrokerInfo.decode(name, (await coordination.get(f"{paths.BROKER_IDS}/{name}"))[0]))
        except NoNode:
            continue  # gone since
    return {info.id: info for info in sorted(infos, key=lambda info: info.id)}


def watch_brokers(
    coordination: ICoordination, clock: Clock, changed: Callable[[str], None] = lambda name: None
) -> Mirror[BrokerInfo]:
    """The live brokers as a mirror, by the text of their ids; to be started."""
    return Mirror(coordination, clock, paths.BROKER_IDS, BrokerInfo.decode, changed)
