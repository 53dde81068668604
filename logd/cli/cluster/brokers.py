"""``logd brokers``: the brokers that are registered in the coordination tree."""

from __future__ import annotations

import json

import click

from logd.cli.options import json_option, zookeeper_option
from logd.cli.terminal.tables import show
from logd.cli.tree_session import with_tree
from logd.coord.interfaces import ICoordination
from logd.coord.registries.brokers import read_brokers

_LIST_EPILOG = """\b
Examples:
  logd brokers list
  logd brokers list --zookeeper zk1:2181,zk2:2181/logd --json | jq '.[].host'
"""


@click.group()
def brokers() -> None:
    """Look at the brokers that share a coordination tree."""


@brokers.command("list", short_help="Print the live brokers and how many partitions each stores.", epilog=_LIST_EPILOG)
@zookeeper_option
@json_option
@click.pass_context
def list_brokers(ctx: click.Context, /, zookeeper: str, as_json: bool) -> None:
    """Print each live broker: its address, and how many topics and partitions it stores."""

    async def work(tree: ICoordination) -> None:
        found = (await read_brokers(tree, _complain)).values()
        if as_json:
            rows = [
                {"id": b.id, "host": b.host, "port": b.port, "instance": b.instance, "topics": dict(b.topics)}
                for b in found
            ]
            click.echo(json.dumps(rows))
            return
        show(
            ["id", "host", "port", "topics", "partitions", "instance"],
            [(b.id, b.host, str(b.port), len(b.topics), sum(map(len, b.topics.values())), b.instance) for b in found],
        )

    with_tree(ctx, zookeeper, work)


def _complain(path: str, error: ValueError) -> None:
    click.echo(f"{path} is left out: it is not the registration of a logd broker: {error}", err=True)
