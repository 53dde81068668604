"""``logd brokers``: list the brokers of a cluster, and take leaderships from one that is to go."""

from __future__ import annotations

import json
from collections.abc import Collection, Container
from typing import Any

import click

from logd.cli.cluster.admin_command import with_admin
from logd.cli.options import broker_option, json_option, wait_option, zookeeper_option
from logd.cli.terminal.byte_progress import CountProgress
from logd.cli.terminal.exits import complain
from logd.cli.terminal.tables import show
from logd.cli.tree_session import with_tree
from logd.client.admin.admin import Admin
from logd.coord.interfaces import ICoordination
from logd.coord.registries.brokers import BrokerInfo, read_brokers
from logd.coord.registries.operator_requests import read_draining
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError
from logd.plurals import counted
from logd.protocol.requests.metadata import MetadataResponse, PartitionMetadata

_LIST_EPILOG = """\b
Examples:
  logd brokers list
  logd brokers list --zookeeper zk1:2181,zk2:2181/logd --json | jq '.[].host'
"""
_DRAIN_EPILOG = """\b
Examples:
  logd brokers drain 2 && systemctl stop logd     # on the machine of broker 2
  logd brokers undrain 2
"""
#: Seconds between two looks at the leaders.
LOOK_SECONDS = 0.2


class BrokerIdParameter(click.ParamType[int]):
    """The id of a broker."""

    name = "ID"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Refuse what is no id."""
        text = str(value)
        if not (text.isascii() and text.isdecimal()):
            self.fail(
                f"{text!r} is no id of a broker, which is a whole number such as 2; logd brokers list shows them",
                param,
                ctx,
            )
        return int(text)


@click.group()
def brokers() -> None:
    """List the brokers that share a coordination tree, and take leaderships from one that is to go."""


@brokers.command("list", short_help="Print the live brokers and how many partitions each stores.", epilog=_LIST_EPILOG)
@zookeeper_option
@json_option
@click.pass_context
def list_brokers(ctx: click.Context, /, zookeeper: str, as_json: bool) -> None:
    """Print each live broker: its address, how many topics and partitions it stores, its address for clients of today's
    Kafka if there is one (--kafka-listen), and whether it is drained."""

    async def work(tree: ICoordination) -> None:
        found = (await read_brokers(tree, _complain)).values()
        drained = await read_draining(tree)
        if as_json:
            rows = [
                {
                    "id": b.id,
                    "host": b.host,
                    "port": b.port,
                    "instance": b.instance,
                    "topics": dict(b.topics),
                    "kafka": [{"host": host, "port": port} for host, port in b.kafka],
                    "drained": b.id in drained,
                }
                for b in found
            ]
            click.echo(json.dumps(rows))
            return
        show(*broker_table(found, drained))

    with_tree(ctx, zookeeper, work)


def broker_table(found: Collection[BrokerInfo], drained: Container[int]) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return the headings and the rows of the list."""
    head = ["id", "host", "port", "topics", "partitions", "instance"]
    # The last columns, and only where there is something to show: scripts take columns by their numbers.
    listens, marks = any(b.kafka for b in found), any(b.id in drained for b in found)
    head += ["kafka"] * listens + ["state"] * marks
    rows: list[tuple[object, ...]] = []
    for b in found:
        kafka = (", ".join(f"{host}:{port}" for host, port in b.kafka),) if listens else ()
        state = ("drained" if b.id in drained else "",) if marks else ()
        partitions = sum(map(len, b.topics.values()))
        rows.append((b.id, b.host, str(b.port), len(b.topics), partitions, b.instance, *kafka, *state))
    return head, rows


def _complain(path: str, error: ValueError) -> None:
    complain(f"{path} is left out: it is not the registration of a logd broker: {error}")


@brokers.command(short_help="Let a broker lead nothing that another can.", epilog=_DRAIN_EPILOG)
@click.argument("number", metavar="ID", type=BrokerIdParameter())
@wait_option
@broker_option
@json_option
@click.pass_context
def drain(ctx: click.Context, /, number: int, timeout: float, broker: str, as_json: bool) -> None:
    """Have other in-sync replicas lead what the broker with this ID leads, and wait until they do.

    It keeps its replicas, and leads nothing again until undrain, also after a restart. Partitions that no other broker
    has in sync stay with it, and the exit status is 1 then: `logd topics reassign` copies them.
    """

    async def work(admin: Admin) -> None:
        from twisted.internet import reactor  # its import installs a reactor, so not before one is needed

        clock: Any = reactor
        await admin.drain(number)
        until = clock.seconds() + timeout
        led = _led(await admin.metadata(), number)
        with CountProgress(f"broker {number} hands over partitions", len(led), quiet=as_json) as progress:
            total = len(led)
            while any(movable for *_, movable in led) and clock.seconds() < until:
                await sleep(clock, LOOK_SECONDS)
                led = _led(await admin.metadata(), number)
                progress.reach(total - len(led), total)
        stuck = [f"{topic}-{each.partition}" for topic, each, _ in led]
        if as_json:
            click.echo(json.dumps({"broker": number, "draining": True, "leads": stuck}))
        elif not stuck:
            click.echo(f"broker {number} leads nothing now")
        if stuck:
            why = (
                "others have not taken them yet"
                if any(movable for *_, movable in led)
                else ("no other live broker has them in sync: logd topics reassign copies them")
            )
            listed = ", ".join(stuck[:5]) + (f" and {len(stuck) - 5} more" if len(stuck) > 5 else "")
            raise LogdError(f"broker {number} still leads {counted(len(stuck), 'partition')} ({listed}); {why}")

    with_admin(ctx, broker, work)


@brokers.command(short_help="Let a drained broker lead again.")
@click.argument("number", metavar="ID", type=BrokerIdParameter())
@broker_option
@json_option
@click.pass_context
def undrain(ctx: click.Context, /, number: int, broker: str, as_json: bool) -> None:
    """Let the broker with this ID lead again; its partitions come back after leader.balance.ms, or by `logd elect`."""

    async def work(admin: Admin) -> None:
        changed = await admin.drain(number, False)
        if as_json:
            click.echo(json.dumps({"broker": number, "draining": False, "changed": changed}))
        else:
            click.echo(f"broker {number} may lead again" if changed else f"broker {number} was not drained")

    with_admin(ctx, broker, work)


def _led(found: MetadataResponse, broker: int) -> list[tuple[str, PartitionMetadata, bool]]:
    """Return the partitions that a broker leads, each with whether another live broker could lead it."""
    live = {each.id for each in found.brokers} - {broker}
    return [
        (topic.topic, each, bool(live.intersection(each.in_sync)))
        for topic in found.topics
        for each in topic.partitions
        if each.leader == broker
    ]
