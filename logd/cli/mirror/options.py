"""Options that the commands of mirrors share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from logd.cli.options import Command, HostsParameter
from logd.errors import ConfigurationError
from logd.mirror.cluster_search import ClusterAddress


class ClusterParameter(click.ParamType[str]):
    """A cluster: its coordination tree, or some of its brokers."""

    name = "ZK_OR_BROKERS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a value that can be neither."""
        try:
            return ClusterAddress(str(value)).text
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)


def cluster_options(required: bool) -> Callable[[Command], Command]:
    """--from, --to and --from-zookeeper."""

    def decorate(command: Command) -> Command:
        for option in (
            click.option(
                "--from-zookeeper",
                "source_zookeeper",
                type=HostsParameter(),
                help="The source's coordination tree, if --from names brokers; by default port 2181 of their host.",
            ),
            click.option("--to", "target", type=ClusterParameter(), required=required, help="The target cluster."),
            click.option(
                "--from",
                "source",
                type=ClusterParameter(),
                required=required,
                help="The source cluster: HOST:PORT of its coordination tree or of a broker, or several.",
            ),
        ):
            command = option(command)
        return command

    return decorate
