"""Brokers of a command: those that --broker names, or those that the coordination tree at --zookeeper knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from attrs import frozen
from click.core import ParameterSource

from logd.cli.options import Command, HostsParameter
from logd.cli.tree_session import tree_at
from logd.client.admin.lag import find_brokers
from logd.clientcore.addresses import Address


@frozen
class ClusterPlace:
    """The place where a command's brokers are found: the tree if it is named, else a broker."""

    broker: str
    zookeeper: str | None


def broker_search_option(command: Command) -> Command:
    """--zookeeper, or the environment's LOGD_ZOOKEEPER, for commands that also have ``broker_option``."""
    return click.option(
        "--zookeeper",
        type=HostsParameter(),
        envvar="LOGD_ZOOKEEPER",
        show_envvar=True,
        help="Find the brokers in the coordination tree at HOSTS, unless --broker or LOGD_BROKER names one.",
    )(command)


def cluster_place(ctx: click.Context, broker: str, zookeeper: str | None) -> ClusterPlace:
    """Return the place that the options name, those of the command line before those of the environment.

    Raises UsageError for both options on the command line.
    """
    named, searched = ctx.get_parameter_source("broker"), ctx.get_parameter_source("zookeeper")
    if zookeeper is None:
        return ClusterPlace(broker, None)
    if named is searched is ParameterSource.COMMANDLINE:
        raise click.UsageError("--broker and --zookeeper exclude one another: give the one or the other")
    search = searched is ParameterSource.COMMANDLINE or named is ParameterSource.DEFAULT
    return ClusterPlace(broker, zookeeper if search else None)


async def brokers_at(reactor: Any, place: ClusterPlace) -> str | Sequence[Address]:
    """Return the addresses of brokers, for clients. Raises BrokerUnavailable if no tree answers or it has no broker."""
    if place.zookeeper is None:
        return place.broker
    async with tree_at(reactor, place.zookeeper) as tree:
        return await find_brokers(tree)
