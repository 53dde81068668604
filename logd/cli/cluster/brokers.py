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
    """Print each live broker: its address, that for clients of today's Kafka if there is one (--kafka-listen), and how
    many topics and partitions it stores."""

    async def work(tree: ICoordination) -> None:
        found = (await read_brokers(tree, _complain)).values()
        if as_json:
            rows = [
                {
                    "id": b.id,
                    "host": b.host,
                    "port": b.port,
                    "instance": b.instance,
                    "topics": dict(b.topics),
                    "kafka": [{"host": host, "port": port} for host, port in b.kafka],
                }
                for b in found
            ]
            click.echo(json.dumps(rows))
            return
        # The last column, and only where there is something to show: scripts take columns by their numbers.
        listens = any(b.kafka for b in found)
        lines: list[tuple[object, ...]] = []
        for b in found:
            kafka = (", ".join(f"{host}:{port}" for host, port in b.kafka),) if listens else ()
            partitions = sum(map(len, b.topics.values()))
            lines.append((b.id, b.host, str(b.port), len(b.topics), partitions, b.instance, *kafka))
        head = ["id", "host", "port", "topics", "partitions", "instance", *(["kafka"] if listens else [])]
        show(head, lines)

    with_tree(ctx, zookeeper, work)


def _complain(path: str, error: ValueError) -> None:
    click.echo(f"{path} is left out: it is not the registration of a logd broker: {error}", err=True)
