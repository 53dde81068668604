"""The search for a cluster: by its coordination tree, or by some of its brokers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from random import random
from typing import Any

from attrs import frozen
from twisted.logger import Logger

from logd.backoff import Backoff
from logd.client.admin.admin import Admin
from logd.client.producer.producer import Producer
from logd.clientcore.addresses import Address, parse_brokers
from logd.config.kinds import Hosts
from logd.config.zookeeper import security_of_environment
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.registries.brokers import read_brokers
from logd.coord.registries.cluster import read_cluster_uuid
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import CoordinationSettings
from logd.deferreds.sleeping import sleep
from logd.errors import BrokerUnavailable, ConfigurationError, LogdError
from logd.mirror.cluster_access import ClusterAccess
from logd.net.credentials import find_credentials

_log = Logger()
#: Seconds that one attempt to reach a tree or a broker takes at most.
ATTEMPT_SECONDS = 5.0
#: Seconds between attempts: the first, and the longest.
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0
#: The port of a coordination tree, by custom.
TREE_PORT = 2181


@frozen
class ClusterAddress:
    """An address of a cluster: ``HOST:PORT,...`` of its coordination tree or of some of its brokers.

    ``zookeeper`` names the tree where ``text`` names brokers; by default port 2181 of the first broker's host.
    """

    text: str
    zookeeper: str | None = None

    def __attrs_post_init__(self) -> None:
        if not self.may_be_tree and not self.may_be_brokers:
            raise ConfigurationError(
                f"{self.text!r} is not allowed; allowed is HOST:PORT of a coordination tree or of a broker, or several "
                "separated by commas"
            )

    @property
    def may_be_tree(self) -> bool:
        """Return whether the text can name the servers of a tree."""
        return Hosts().accepts(self.text)

    @property
    def may_be_brokers(self) -> bool:
        """Return whether the text can name brokers."""
        try:
            parse_brokers(self.text)
        except ConfigurationError:
            return False
        return True

    @property
    def tree_of_brokers(self) -> str:
        """Return the address of the tree, where ``text`` names brokers. Raises ConfigurationError."""
        if self.zookeeper is not None:
            return self.zookeeper
        first = parse_brokers(self.text)[0]
        if isinstance(first, str):
            raise ConfigurationError(f"{self.text!r} names brokers: name their coordination tree too")
        return f"{first[0]}:{TREE_PORT}"


async def find_cluster(
    reactor: Any, address: ClusterAddress, name: str, needs_tree: bool, session_timeout: float = 10.0
) -> ClusterAccess:
    """Return access to a cluster, once one answers at the address; ``name`` is "source" or "target", for the log.

    ``needs_tree``: brokers alone are not enough. ``session_timeout``: seconds of the session with the tree.
    Raises ConfigurationError for an address that leads to two clusters.
    """
    backoff = Backoff(FIRST_WAIT, LONGEST_WAIT, random)
    while True:
        try:
            return await try_cluster(reactor, address, needs_tree, session_timeout, name)
        except (BrokerUnavailable, CoordinationError) as error:
            told = _log.warn if backoff.failures % 10 == 0 else _log.debug
            told("the {name} cluster does not answer yet: {error}", name=name, error=str(error))
            await sleep(reactor, backoff.next())


async def try_cluster(
    reactor: Any, address: ClusterAddress, needs_tree: bool, session_timeout: float = 10.0, name: str = ""
) -> ClusterAccess:
    """Try once to find a cluster; see ``find_cluster``. Raises BrokerUnavailable as well."""
    errors = []
    common = {"reactor": reactor, **user_of(name, os.environ)}
    attempts = [(address.may_be_brokers, _by_brokers), (address.may_be_tree, _by_tree)]
    if f":{TREE_PORT}" in address.text or "/" in address.text:
        attempts.reverse()
    for possible, attempt in attempts:
        if possible:
            try:
                return await attempt(common, address, needs_tree, session_timeout)
            except ConfigurationError:
                raise
            except LogdError as error:
                errors.append(str(error))
    problems = "; ".join(errors)
    raise BrokerUnavailable(f"neither a coordination tree nor a broker answers at {address.text}: {problems}")


async def _by_brokers(
    common: Mapping[str, Any], address: ClusterAddress, needs_tree: bool, session: float
) -> ClusterAccess:
    brokers = parse_brokers(address.text)
    uuid = await _uuid_by_brokers(common, brokers)
    if not needs_tree and address.zookeeper is None:
        return ClusterAccess(uuid, brokers, None, common)
    hosts = address.tree_of_brokers
    tree = await _connect(common, hosts, session)
    try:
        found = await read_cluster_uuid(tree)
        if found != uuid:
            raise ConfigurationError(
                f"the coordination tree at {hosts} is of cluster {found or 'without a uuid'}, and the brokers at "
                f"{address.text} are of cluster {uuid}: name the tree of these brokers"
            )
    except Exception:
        await tree.close()
        raise
    return ClusterAccess(uuid, brokers, tree, common)


async def _by_tree(
    common: Mapping[str, Any], address: ClusterAddress, needs_tree: bool, session: float
) -> ClusterAccess:
    tree = await _connect(common, address.text, session)
    try:
        brokers = await addresses_in(tree)
        uuid = await read_cluster_uuid(tree) or await _uuid_by_brokers(common, brokers)
    except Exception:
        await tree.close()
        raise
    return ClusterAccess(uuid, brokers, tree, common)


def user_of(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return whom to connect as to the cluster ``name``, "source" or "target", as settings of clients.

    LOGD_SOURCE_USER with LOGD_SOURCE_PASSWORD_FILE or LOGD_SOURCE_PASSWORD, and LOGD_TARGET_..., are for one of them;
    without these all clients use LOGD_USER.
    """
    prefix = f"LOGD_{name.upper()}_"
    if not name or f"{prefix}USER" not in environment:
        return {}
    names = {"user": "USER", "password": "PASSWORD", "password_file": "PASSWORD_FILE"}
    return {
        each: environment[prefix + variable] for each, variable in names.items() if prefix + variable in environment
    }


async def addresses_in(tree: ICoordination) -> list[Address]:
    """Return the addresses of the live brokers of a tree. Raises BrokerUnavailable, CoordinationError."""
    brokers: list[Address] = [(each.host, each.port) for each in (await read_brokers(tree)).values()]
    if not brokers:
        raise BrokerUnavailable("the coordination tree knows no live broker")
    return brokers


async def tell_brokers(cluster: ClusterAccess, *clients: Admin | Producer) -> None:
    """Tell clients the brokers of their cluster that are live now, in case all have moved. Never fails."""
    if cluster.tree is None:
        return
    try:
        addresses = await addresses_in(cluster.tree)
    except (LogdError, CoordinationError) as error:
        _log.debug("the brokers of cluster {uuid} are not known now: {error!r}", uuid=cluster.uuid, error=error)
        return
    for client in clients:
        client.begin_at(addresses)


async def _uuid_by_brokers(common: Mapping[str, Any], brokers: Any) -> str:
    admin = Admin(brokers, **common, connect_timeout=ATTEMPT_SECONDS, request_timeout=ATTEMPT_SECONDS)
    try:
        found = (await admin.metadata(())).cluster
    finally:
        await admin.close()
    if not found:
        raise BrokerUnavailable("the broker does not know the uuid of its cluster yet, or is of an earlier release")
    return str(found)


async def _connect(common: Mapping[str, Any], hosts: str, session: float) -> ICoordination:
    """Return a client of a tree that answers. Raises CoordinationError, and ConfigurationError."""
    settings = CoordinationSettings.secured(
        hosts, security_of_environment(os.environ), connect_timeout=ATTEMPT_SECONDS, session_timeout=session
    )
    find = find_credentials(common.get("user"), common.get("password"), common.get("password_file"))
    credentials = None if find is None else find()
    tree = ZooKeeperCoordination(common["reactor"], settings)
    try:
        await tree.connect()
        if credentials is not None:  # a tree may demand them
            await tree.authenticate(credentials.user, credentials.password)
    except Exception:
        await tree.close()
        raise
    return tree
