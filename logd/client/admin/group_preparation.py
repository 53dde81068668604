"""Prepares a group for a command that writes the group's nodes itself, as consumers have it done before they join."""

from __future__ import annotations

from typing import Any

from logd.client.admin.lag import find_brokers
from logd.client.cluster.cluster import Cluster
from logd.client.consumer.group.preparation import GroupPreparation
from logd.client.settings import LinkSettings
from logd.coord.interfaces import ICoordination


async def prepare_group(reactor: Any, tree: ICoordination, group: str, **user: str) -> None:
    """Have a broker give the nodes of ``group`` to the user of this process; do nothing without a user.

    ``user`` is a client's ``user`` and ``password`` or ``password_file``, by default those of the environment. Nodes
    that ``tree`` makes from now on belong to that user and the brokers. Raises a CoordinationError, BrokerUnavailable,
    the WireError that the broker answers, such as a refusal, and ConfigurationError for a password file.
    """
    cluster = Cluster(reactor, (), LinkSettings(**user))  # type: ignore[arg-type]  # its fields are checked there
    if cluster.credentials is None:
        return
    cluster.begin_at(await find_brokers(tree))
    try:
        await GroupPreparation(cluster, tree, group).prepare(again=False)
    finally:
        await cluster.close()
