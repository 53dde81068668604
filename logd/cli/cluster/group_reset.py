"""``logd groups reset``: moves the positions of a group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from logd.cli.messages.start_option import ALLOWED, StartParameter
from logd.cli.options import TopicParameter, group_argument, json_option, zookeeper_option
from logd.cli.reactor_command import run
from logd.cli.terminal.prompts import agree, is_person_there
from logd.cli.terminal.tables import show, show_before_asking
from logd.cli.tree_session import tree_at
from logd.client.admin.admin import Admin
from logd.client.admin.group_preparation import prepare_group
from logd.client.admin.group_reset import target
from logd.client.admin.lag import AT_ONCE, find_brokers
from logd.client.consumer.consumer import Consumer
from logd.client.starting_positions import Position, Start
from logd.coord.groups.group_changes import GroupLive, check_no_kafka_members, move_positions
from logd.coord.groups.inspection import GroupEntry, UnknownGroup, read_group
from logd.coord.interfaces import ICoordination
from logd.coord.registries.topics import read_topic
from logd.deferreds.gathering import gather_some
from logd.errors import WrongPartition
from logd.plurals import counted
from logd.topic import TopicPartition

_EPILOG = """\b
Examples:
  logd groups reset billing --topic clicks --to earliest --dry-run
  logd groups reset billing --topic clicks --to 2011-11-11T06:00:00Z
  logd groups reset billing --topic clicks --partition 3 --to 1048576
"""
_COLUMNS = ("topic", "partition", "old", "new")


@click.command(short_help="Move the positions of a group.", epilog=_EPILOG)
@group_argument
@zookeeper_option
@click.option("--topic", type=TopicParameter(), required=True, help="The topic whose positions are moved.")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only this partition; by default all of them.")
@click.option(
    "--to",
    type=StartParameter(),
    required=True,
    help=f"Where the group goes on: {ALLOWED}. A position needs --partition.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@click.option("--force", is_flag=True, help="Move them even while consumers are live; they go on at the new positions.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; scripts need this.")
@json_option
@click.pass_context
def reset(ctx: click.Context, /, **options: Any) -> None:
    """Move the positions of GROUP, and print the old and the new position of each partition.

    Asks first; without a terminal on standard input, --yes is required. While the group has live consumers, nothing is
    changed and the exit status is 1. With --force no commit of a consumer can undo the move, and all members begin
    again at the new positions. Members among Kafka's clients would not learn of the move, so while a group has such
    members it is refused, even with --force. A group that does not exist yet gets its first positions. A position
    outside the log, or inside a message, is refused.
    """
    if isinstance(options["to"], Position) and options["partition"] is None:
        raise click.UsageError("--to with a position needs --partition: each partition counts its own bytes")
    ctx.exit(run(lambda reactor: _reset(reactor, **options)))


async def _reset(
    reactor: Any,
    group: str,
    zookeeper: str,
    topic: str,
    partition: int | None,
    to: Start,
    dry_run: bool,
    force: bool,
    yes: bool,
    as_json: bool,
) -> None:
    async with tree_at(reactor, zookeeper) as tree:
        if not dry_run:
            await prepare_group(reactor, tree, group)
        entry = await _entry(tree, group)
        places = await _places(tree, topic, partition)
        if not dry_run:
            check_no_kafka_members(entry)
        if entry.live and not (force or dry_run):
            raise GroupLive(
                f"group {group!r} is live, with {counted(len(entry.consumers), 'consumer')}: stop them, or use --force"
            )
        brokers = await find_brokers(tree)
        admin = Admin(brokers, reactor=reactor)
        try:
            found = await gather_some(
                (target(admin, lambda: Consumer(brokers, reactor=reactor), reactor, where, to) for where in places),
                AT_ONCE,
            )
        finally:
            await admin.close()
        positions = dict(zip(places, found, strict=True))
        asks = not (yes or dry_run)
        if asks:
            agree_to_move(entry, positions, as_json)
        if not dry_run:
            await move_positions(tree, group, entry.offsets, positions)
        if as_json:
            rows = [
                {"topic": where.topic, "partition": where.partition, "old": _old(entry, where), "new": position}
                for where, position in positions.items()
            ]
            click.echo(json.dumps({"group": group, "live": entry.live, "moved": not dry_run, "partitions": rows}))
        elif not asks:
            show(_COLUMNS, _rows(entry, positions))


async def _entry(tree: ICoordination, group: str) -> GroupEntry:
    try:
        return await read_group(tree, group)
    except UnknownGroup:
        return GroupEntry(group)


async def _places(tree: ICoordination, topic: str, partition: int | None) -> list[TopicPartition]:
    numbers = sorted((await read_topic(tree, topic)).partitions)
    if partition is None:
        return [TopicPartition(topic, number) for number in numbers]
    if partition not in numbers:
        raise WrongPartition(f"topic {topic!r} has no partition {partition}: it has {len(numbers)}, numbered from 0")
    return [TopicPartition(topic, partition)]


def _old(entry: GroupEntry, where: TopicPartition) -> int | None:
    offset = entry.offsets.get(where)
    return None if offset is None else offset.position


def agree_to_move(entry: GroupEntry, positions: Mapping[TopicPartition, int], as_json: bool) -> None:
    """Show the positions to a person, and ask. Raises LogdError without a terminal, and when the answer is no."""
    if is_person_there():
        show_before_asking(_COLUMNS, _rows(entry, positions), as_json)
    live = ", although its consumers are live" if entry.live else ""
    agree(f"Move group {entry.name} to these positions{live}?")


def _rows(entry: GroupEntry, positions: Mapping[TopicPartition, int]) -> list[tuple[object, ...]]:
    return [(*where, _old(entry, where), position) for where, position in positions.items()]
