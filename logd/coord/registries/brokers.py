"""The broker registry of the paper (section 3.2): an ephemeral node for each live broker, with its partitions.

/brokers/ids/<id>    {"host": "10.0.0.5", "port": 6667, "instance": "<uuid>", "topics": {"<topic>": [0, 2], ...},
                      "kafka": [{"host": "10.0.0.5", "port": 9092}, ...], "version": "0.2.0",
                      "rack": "a", "tls": true}

``kafka`` is there if the broker listens for clients of today's Kafka: the address of each of its listeners, in their
order. ``version`` is that of logd, for people. ``rack`` is there if the broker names one, ``tls`` if its port for
native clients and brokers speaks TLS alone. Readers that do not know these members pass them over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen
from twisted.python.failure import Failure

from logd.checkedjson import decimal, excerpt, load_json, whole_number
from logd.coord import paths
from logd.coord.ephemeral import HeldElsewhere
from logd.coord.errors import NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.kept_ephemeral import KeptEphemeral
from logd.coord.registries.child_cache import ChildCache
from logd.interfaces import Clock

#: A host is a name or an address; it appears in error messages and on terminals.
_HOST = re.compile(r"[^\s\x00-\x20\x7f-\x9f]{1,255}\Z")
_INSTANCE = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_VERSION = re.compile(r"[A-Za-z0-9.+_-]{0,100}\Z")
_RACK = re.compile(r"[A-Za-z0-9._-]{0,100}\Z")
#: The most listeners for clients of today's Kafka that a broker may have.
MOST_LISTENERS = 16
#: Bytes; ZooKeeper refuses nodes above 1 MiB. The list of topics is informative, so it is left out beyond this.
MOST_BYTES = 900_000


@frozen
class BrokerInfo:
    """One live broker: its address for clients, and the ``instance`` uuid of its data directory."""

    id: int
    host: str
    port: int
    instance: str
    #: The partitions stored there. Informative: a topic's entry decides.
    topics: Mapping[str, tuple[int, ...]] = field(factory=dict)
    #: The addresses of its listeners for clients of today's Kafka, in their order.
    kafka: tuple[tuple[str, int], ...] = ()
    #: The version of its logd; empty for one that does not tell.
    version: str = ""
    #: The place in which it stands; empty if it does not tell.
    rack: str = ""
    #: True if connections to ``port`` begin with TLS.
    tls: bool = False

    def encode(self) -> bytes:
        """Return the node's value."""
        value: dict[str, Any] = {"host": self.host, "port": self.port, "instance": self.instance}
        if self.kafka:
            value["kafka"] = [{"host": host, "port": port} for host, port in self.kafka]
        if self.version:
            value["version"] = self.version
        if self.rack:
            value["rack"] = self.rack
        if self.tls:
            value["tls"] = True
        topics = {name: list(partitions) for name, partitions in sorted(self.topics.items())}
        data = json.dumps({**value, "topics": topics}).encode()
        return data if len(data) <= MOST_BYTES else json.dumps({**value, "topics": {}}).encode()

    @classmethod
    def decode(cls, name: str, data: bytes) -> BrokerInfo:
        """Decode the node ``name``; raise ValueError, and nothing else, for a value that is no broker's."""
        try:
            value = load_json(data)
            instance = value["instance"]
            topics = {str(topic): tuple(map(whole_number, found)) for topic, found in value.get("topics", {}).items()}
            kafka = value.get("kafka", [])
            if not isinstance(kafka, list) or len(kafka) > MOST_LISTENERS:
                raise ValueError(f"{excerpt(kafka)} is no list of at most {MOST_LISTENERS} listeners")
            listeners = tuple([_address(each) for each in kafka])
            if not isinstance(instance, str) or not _INSTANCE.match(instance):
                raise ValueError(f"{excerpt(instance)} is no instance")
            version = value.get("version", "")
            if not isinstance(version, str) or not _VERSION.match(version):
                raise ValueError(f"{excerpt(version)} is no version")
            rack = value.get("rack", "")
            if not isinstance(rack, str) or not _RACK.match(rack):
                raise ValueError(f"{excerpt(rack)} is no rack")
            tls = value.get("tls", False) is True
            return cls(decimal(name), *_address(value), instance, topics, listeners, version, rack, tls)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a broker's entry: {excerpt(data)}") from error


def _address(value: Any) -> tuple[str, int]:
    """Return the host and the port that ``value`` names. Raises ValueError, KeyError or TypeError."""
    host = value["host"]
    if not isinstance(host, str) or not _HOST.match(host):
        raise ValueError(f"{excerpt(host)} is no host")
    return host, whole_number(value["port"], 65535)


def keep_registered(
    coordination: ICoordination,
    clock: Clock,
    info: BrokerInfo,
    failed: Callable[[Failure], None],
    again: Callable[[], None],
) -> KeptEphemeral:
    """Return the broker's ephemeral node, not started yet; it is created again after a lost session.

    A node left by an earlier session of the same instance at the same address is taken over. At another address it may
    be of a process that lives, on a copy of the data directory: it is waited for. ``failed`` is called with later
    errors, ``again`` each time that the broker is registered again.
    """

    def same(data: bytes) -> bool:
        try:
            found = BrokerInfo.decode(str(info.id), data)
        except ValueError:
            return False
        return (found.instance, found.host, found.port) == (info.instance, info.host, info.port)

    path = paths.broker(info.id)
    return KeptEphemeral(clock, coordination, path, info.encode(), same=same, failed=failed, made_again=again)


def conflict(info: BrokerInfo, held: HeldElsewhere) -> str:
    """Return the error text for a broker id that another broker has registered: both sides, and the remedy."""
    try:
        other = BrokerInfo.decode(str(info.id), held.data)
    except ValueError:
        return str(held)
    if other.instance == info.instance:
        return (
            f"broker {info.id} is registered at {other.host}:{other.port} with this data directory, and this one is at "
            f"{info.host}:{info.port}: if that was this broker before it was killed, its session ends within "
            "zookeeper.session.ms, and this one registers; if it still runs, one of the two has a copy of the "
            "directory: stop it"
        )
    if (other.host, other.port) == (info.host, info.port):
        return (
            f"broker {info.id} is still registered at {other.host}:{other.port} with another data directory, instance "
            f"{other.instance}, and this is instance {info.instance}: if that one was killed and its disk replaced, "
            "its session ends within zookeeper.session.ms, and this one registers; if not, two brokers have this id "
            "and this address: stop one of them"
        )
    return (
        f"broker id {info.id} is taken: {held.path} is of instance {other.instance} at {other.host}:{other.port}, and "
        f"this is instance {info.instance} at {info.host}:{info.port}; give one of them an id, and with it a data "
        "directory, of its own, or stop the other"
    )


async def read_brokers(
    coordination: ICoordination, unreadable: Callable[[str, ValueError], None] = lambda name, error: None
) -> dict[int, BrokerInfo]:
    """Read all live brokers once. Raises CoordinationError.

    ``unreadable(path, error)`` is called for each node that is no broker of logd, such as one of Kafka 0.7.
    """
    try:
        names = await coordination.get_children(paths.BROKER_IDS)
    except NoNode:
        return {}

    infos = []
    for name in names:
        path = f"{paths.BROKER_IDS}/{name}"
        try:
            infos.append(BrokerInfo.decode(name, (await coordination.get(path))[0]))
        except NoNode:
            continue  # deleted since the list was read
        except ValueError as error:
            unreadable(path, error)
    return {info.id: info for info in sorted(infos, key=lambda info: info.id)}


def watch_brokers(
    coordination: ICoordination, clock: Clock, changed: Callable[[str], None] = lambda name: None
) -> ChildCache[BrokerInfo]:
    """Return a cache of the live brokers by the text of their ids, not started yet."""
    return ChildCache(coordination, clock, paths.BROKER_IDS, BrokerInfo.decode, changed)
