"""Opens a session on the coordination tree for the duration of a command."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import click

from logd.cli.reactor_command import run
from logd.config.zookeeper import ZooKeeperSecurity, security_of_environment
from logd.coord.errors import ConnectionLoss, OperationTimeout
from logd.coord.interfaces import ICoordination
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import CoordinationSettings
from logd.errors import BrokerUnavailable
from logd.net.credentials import credentials_of_environment

#: Seconds within which the tree has to answer.
CONNECT_SECONDS = 10.0


def tree_settings(
    hosts: str, seconds: float = CONNECT_SECONDS, security: ZooKeeperSecurity | None = None
) -> CoordinationSettings:
    """Return the settings of a client of the tree at ``hosts``; TLS and credentials are the environment's by default.

    Raises ConfigurationError for a value of the environment that is not allowed.
    """
    return CoordinationSettings.secured(
        hosts,
        security_of_environment(os.environ) if security is None else security,
        connect_timeout=seconds,
        operation_timeout=seconds,
    )


@asynccontextmanager
async def tree_at(
    reactor: Any, hosts: str, seconds: float = CONNECT_SECONDS, security: ZooKeeperSecurity | None = None
) -> AsyncIterator[ICoordination]:
    """Connect a client to the tree at ``hosts``; close it at the end. Raises BrokerUnavailable when none answers."""
    tree = ZooKeeperCoordination(reactor, tree_settings(hosts, seconds, security))
    try:
        credentials = credentials_of_environment()
        await tree.connect()
        if credentials is not None:  # what belongs to this user, such as its groups
            await tree.authenticate(credentials.user, credentials.password)
        yield tree
    except (OperationTimeout, ConnectionLoss) as error:
        raise BrokerUnavailable(
            f"no coordination tree answers at {hosts} ({error}); --zookeeper or LOGD_ZOOKEEPER names another one, "
            "`logd broker --data DIR` starts a broker with a tree of its own, `logd zookeeper --data DIR` a tree alone"
        ) from error
    finally:
        await tree.close()


def with_tree(ctx: click.Context, hosts: str, work: Callable[[ICoordination], Awaitable[None]]) -> None:
    """Run ``work`` with a client of the tree at ``hosts``, close the client, and end the command.

    The exit status is 3 when no tree answers.
    """

    async def running(reactor: Any) -> None:
        async with tree_at(reactor, hosts) as tree:
            await work(tree)

    ctx.exit(run(running))
