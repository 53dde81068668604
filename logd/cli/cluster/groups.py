"""``logd groups``: list, describe, reset and delete consumer groups."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from logd.cli.cluster.group_reset import reset
from logd.cli.options import TopicParameter, group_argument, json_option, zookeeper_option
from logd.cli.reactor_command import run
from logd.cli.terminal.exits import complain
from logd.cli.terminal.prompts import agree
from logd.cli.terminal.tables import show
from logd.cli.tree_session import tree_at, with_tree
from logd.client.admin.admin import Admin
from logd.client.admin.lag import LagReader, PartitionLag, find_brokers, partitions_of, streams_by_consumer, together
from logd.client.consumer.consumer import Consumer
from logd.coord.groups.group_changes import check_at_rest, delete_group
from logd.coord.groups.inspection import GroupEntry, list_groups, read_group, read_groups
from logd.coord.interfaces import ICoordination
from logd.errors import BrokerUnavailable, LogdError, UnknownTopic
from logd.topic import TopicPartition

_COLUMNS = ("topic", "partition", "position", "log_end", "lag_bytes", "lag_messages", "lag_seconds", "owner")

_DESCRIBE_EPILOG = """\b
Examples:
  logd groups describe billing
  logd groups describe billing --topic clicks --json | jq .lag_bytes
  logd groups describe billing --consumers
"""


@click.group()
def groups() -> None:
    """List, describe, reset and delete consumer groups."""


groups.add_command(reset)


@groups.command("list", short_help="Print every group and the topics that it reads.")
@zookeeper_option
@json_option
@click.pass_context
def list_all(ctx: click.Context, /, zookeeper: str, as_json: bool) -> None:
    """Print every group: its number of live consumers, its topics, and the number of its stored positions.

    A group with members among Kafka's clients has no native consumers; the broker that coordinates those is printed.
    """

    async def work(tree: ICoordination) -> None:
        found = await read_groups(tree, await list_groups(tree))
        if as_json:
            rows = [
                {
                    "group": each.name,
                    "live": each.live,
                    "consumers": len(each.consumers),
                    "topics": list(each.topics),
                    "positions": len(each.offsets),
                    "coordinator": each.coordinator,
                }
                for each in found
            ]
            click.echo(json.dumps(rows))
            return
        show(
            ["group", "consumers", "topics", "positions", "kafka coordinator"],
            [
                (each.name, len(each.consumers), ",".join(each.topics), len(each.offsets), each.coordinator)
                for each in found
            ],
        )

    with_tree(ctx, zookeeper, work)


@groups.command(short_help="Print a group's positions, lag and owners.", epilog=_DESCRIBE_EPILOG)
@group_argument
@zookeeper_option
@click.option("--topic", type=TopicParameter(), help="Only this topic; by default all that the group reads.")
@click.option(
    "--count-below",
    type=click.IntRange(0),
    default=1 << 20,
    show_default=True,
    metavar="BYTES",
    help="Count the messages of a lag of at most this size, by reading them.",
)
@click.option("--consumers", is_flag=True, help="Print the live consumers instead, with their streams and partitions.")
@json_option
@click.pass_context
def describe(ctx: click.Context, /, **options: Any) -> None:
    """Print the position, lag and owner of each partition that GROUP reads.

    Lag is given in bytes of the log; in messages, when there are few enough to count (otherwise the column is empty);
    and in seconds: the age of the first message that is not handled, as exactly as the times in the broker's index.
    The owners of a group of Kafka's clients are known to the broker that coordinates it, and are not printed.
    Positions are the committed ones, so the lag of a live group is as of its last commit.

    A partition whose log cannot be described is printed with an error, and the exit status is 1.
    """
    ctx.exit(run(lambda reactor: _describe(reactor, **options)))


async def _describe(
    reactor: Any, group: str, zookeeper: str, topic: str | None, count_below: int, consumers: bool, as_json: bool
) -> None:
    async with tree_at(reactor, zookeeper) as tree:
        entry = await read_group(tree, group)
        if consumers and not as_json:
            _show_consumers(entry)
            return
        places = await partitions_of(tree, entry, topic)
        if topic is not None and not places:
            raise UnknownTopic(f"there is no topic {topic!r}, and group {group!r} has no positions in it")
        try:
            brokers = await find_brokers(tree)
        except BrokerUnavailable as error:
            lags = [_not_described(entry, where, str(error)) for where in places]
        else:
            admin = Admin(brokers, reactor=reactor)
            reader = LagReader(admin, lambda: Consumer(brokers, reactor=reactor), reactor, time.time, count_below)
            try:
                lags = await reader.read(entry, places)
            finally:
                await admin.close()
    if as_json:
        click.echo(json.dumps(_as_json(entry, lags)))
    else:
        show(
            [*(name.replace("_", " ") for name in _COLUMNS), "error"],
            [(*(getattr(lag, name) for name in _COLUMNS), lag.error) for lag in lags],
        )
    if entry.coordinator is not None:
        complain(
            f"group {group!r} has members among Kafka's clients, which broker {entry.coordinator} coordinates; that "
            "broker knows who reads which partition: kafka-consumer-groups --describe --group shows it"
        )
    for lag in lags:
        if lag.lost is not None:
            first, last = lag.lost
            complain(
                f"topic {lag.topic!r}, partition {lag.partition}: an unknown number of messages between {first} and "
                f"{last} was lost before group {group!r} handled it: the log is {lag.log_start} to {lag.log_end}"
            )
    failed = [lag for lag in lags if lag.error is not None]
    if failed:
        raise LogdError(f"{len(failed)} of {len(lags)} partitions cannot be described: {failed[0].error}")


def _not_described(entry: GroupEntry, where: TopicPartition, error: str) -> PartitionLag:
    owner, offset = entry.owners.get(where), entry.offsets.get(where)
    return PartitionLag(
        *where, None if owner is None else owner.stream, None if offset is None else offset.position, error=error
    )


def _as_json(entry: GroupEntry, lags: list[PartitionLag]) -> dict[str, Any]:
    return {
        "group": entry.name,
        "live": entry.live,
        "coordinator": entry.coordinator,
        **{name: together(lags, name) for name in ("lag_bytes", "lag_messages", "lag_seconds")},
        "partitions": [lag.to_json() for lag in lags],
        "consumers": [
            {
                "consumer": consumer,
                "topics": dict(entry.consumers[consumer].topics),
                "patterns": [list(pattern) for pattern in entry.consumers[consumer].patterns],
                "streams": {name: [list(where) for where in owned] for name, owned in streams.items()},
            }
            for consumer, streams in streams_by_consumer(entry)
        ],
    }


def _show_consumers(entry: GroupEntry) -> None:
    rows = []
    for consumer, streams in streams_by_consumer(entry):
        subscription = entry.consumers[consumer]
        reads = [*subscription.topics, *(f"/{pattern.pattern}/" for pattern in subscription.patterns)]
        number = sum(subscription.topics.values()) + sum(pattern.streams for pattern in subscription.patterns)
        rows.append((consumer, ",".join(reads), number, sum(map(len, streams.values()))))
    show(["consumer", "reads", "streams", "partitions"], rows)


@groups.command(short_help="Delete a group and its positions.")
@group_argument
@zookeeper_option
@click.option("--yes", "-y", is_flag=True, help="Do not ask; scripts need this.")
@json_option
@click.pass_context
def delete(ctx: click.Context, /, group: str, zookeeper: str, yes: bool, as_json: bool) -> None:
    """Delete GROUP and its positions. Asks first; without a terminal on standard input, --yes is required.

    A group with live consumers is not deleted (exit status 1): its consumers would begin anew.
    """

    async def work(tree: ICoordination) -> None:
        check_at_rest(await read_group(tree, group))  # before the question is asked
        if not yes:
            agree(f"Delete group {group} and its positions?")
        positions = await delete_group(tree, group)
        if as_json:
            click.echo(json.dumps({"group": group, "deleted": True, "positions": positions}))
        else:
            click.echo(f"deleted {group} with {positions} positions")

    with_tree(ctx, zookeeper, work)
