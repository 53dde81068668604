"""Exposure of a broker and its secrets: listeners on the network, an open tree, files that others may read."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from attrs import frozen

from logd.config import BrokerSettings
from logd.doctor.losses import ClusterContents
from logd.doctor.observation import Level, Observation
from logd.doctor.ports import TcpPort

AREA = "security"
#: The port of a server, which may be left out; an IPv6 address has brackets.
_PORT_OF_SERVER = re.compile(r":[0-9]+\Z")


def is_local(host: str) -> bool:
    """Return whether only this machine reaches a port on ``host``; empty for all addresses."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def examine_listeners(settings: BrokerSettings, endpoints: Iterable[TcpPort]) -> Iterator[Observation]:
    """Judge the listeners that other machines reach, and those with which a broker refuses to start."""
    security, tree = settings.security, settings.zookeeper_security
    has_credentials = tree.zookeeper_digest_credentials is not None or tree.zookeeper_digest_file is not None
    for endpoint in endpoints:
        where = f"{endpoint.setting} {endpoint.host or '*'}:{endpoint.port}"
        if is_local(endpoint.host):
            yield Observation(AREA, Level.OK, where, "is for this machine alone")
        elif endpoint.setting == "zookeeper.listen":
            demands = has_credentials and not security.open_to_network
            yield _examine_reachable(where, endpoint, demands, security.open_to_network, _TREE)
        else:
            yield _examine_reachable(where, endpoint, security.security_required, security.open_to_network, _PORT)


@frozen
class _Exposed:
    """The words for a kind of listener: what strangers may do, what may be read on its way, and what to demand."""

    harm: str
    read: str
    remedy: str


_PORT = _Exposed("read, write and delete", "messages", "security.required = true with users and rules")
_TREE = _Exposed("make brokers delete messages", "the tree's nodes", "zookeeper.digest.file with credentials")


def _examine_reachable(where: str, endpoint: TcpPort, demands: bool, is_wanted: bool, exposed: _Exposed) -> Observation:
    """Judge a listener that other machines reach; ``is_wanted``: open.to.network is set."""
    if demands and endpoint.tls:
        return Observation(AREA, Level.OK, where, "demands users, over TLS")
    if demands:
        return Observation(
            AREA,
            Level.WARNING,
            where,
            f"is open to other machines without TLS: {exposed.read} can be read on their way",
            "an ssl: endpoint with a certificate",
        )
    if is_wanted:
        return Observation(
            AREA,
            Level.WARNING,
            where,
            f"is open to other machines, as open.to.network is set: whoever reaches the port may {exposed.harm}, "
            "unless there are users or rules that forbid it",
            f"{exposed.remedy}, in place of open.to.network",
        )
    return Observation(
        AREA,
        Level.PROBLEM,
        where,
        f"is for other machines, and nothing is demanded of them: the broker refuses to start, as whoever reaches the "
        f"port could {exposed.harm}",
        f"{exposed.remedy}; or interface=127.0.0.1; or, on a network that you trust, open.to.network = true",
    )


def examine_open_tree(cluster: ClusterContents, hosts: str) -> Iterator[Observation]:
    """Judge whether clients without credentials may change the brokers' nodes in the tree at ``hosts``."""
    local = all(is_local(_PORT_OF_SERVER.sub("", each)) for each in hosts.partition("/")[0].split(","))
    if cluster.open_to_read:
        yield Observation(
            AREA,
            Level.WARNING if local else Level.PROBLEM,
            "coordination tree",
            f"what proves users to be themselves is readable for whoever reaches {hosts}",
            "give the brokers zookeeper.digest.file, so that they protect their nodes",
        )
    if cluster.open_to_change:
        yield Observation(
            AREA,
            Level.NOTE if local else Level.PROBLEM,
            "coordination tree",
            f"whoever reaches {hosts} may change the brokers' nodes, and make brokers delete messages",
            "give the brokers zookeeper.digest.file, so that they protect their nodes; or keep others from the tree",
        )
    elif cluster.open_to_change is False:
        yield Observation(AREA, Level.OK, "coordination tree", "protects the brokers' nodes")


def secret_files(settings: BrokerSettings, config: str | None) -> list[tuple[str, str]]:
    """Return the files that only the broker's user should read, with what they hold."""
    tree = settings.zookeeper_security
    found = [(tree.zookeeper_digest_file, "the credentials of the tree"), (tree.zookeeper_tls_key, "a key")]
    if config is not None and tree.zookeeper_digest_credentials is not None:
        found.append((config, "the credentials of the tree"))
    listening = settings.listen, *settings.kafka.endpoints, settings.legacy.legacy_listen, settings.http
    for text in (*listening, settings.zookeeper_listen):
        # A colon within an argument is written as \\: there.
        for word in (text or "").replace("\\:", "\0").split(":"):
            if word.startswith("privateKey="):
                found.append((word.partition("=")[2].replace("\0", ":"), "the key of a certificate"))
    return [(path, what) for path, what in dict.fromkeys(found) if path is not None]


def examine_files(files: Iterable[tuple[str, str]], data: str) -> Iterator[Observation]:
    """Judge who may read secret files and the data directory."""
    for path, what in files:
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            yield Observation(
                AREA, Level.PROBLEM, path, f"holds {what} and cannot be read: {error}", "correct the path or the owner"
            )
            continue
        if mode & (stat.S_IRWXG & ~stat.S_IRGRP | stat.S_IRWXO):
            yield Observation(
                AREA,
                Level.PROBLEM,
                path,
                f"holds {what}, and its mode {stat.S_IMODE(mode):04o} lets others use it",
                f"chmod 600 {path}",
            )
        else:
            yield Observation(AREA, Level.OK, path, f"holds {what}, and is for its owner and group")
    try:
        mode = os.stat(data).st_mode
    except OSError:
        return
    if mode & stat.S_IRWXO:
        yield Observation(
            AREA,
            Level.WARNING,
            data,
            f"has mode {stat.S_IMODE(mode):04o}: every user of this machine may read the messages",
            f"chmod 750 {data} (StateDirectoryMode=0750 in a unit)",
        )
