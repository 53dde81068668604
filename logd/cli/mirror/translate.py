"""``logd mirror translate``: a group's positions on the source, as positions on the target."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from logd.cli.mirror.options import cluster_options
from logd.cli.options import TopicParameter, group_argument, json_option
from logd.cli.reactor_command import run
from logd.cli.terminal.exits import complain
from logd.cli.terminal.prompts import agree, is_person_there
from logd.cli.terminal.tables import show, show_before_asking
from logd.client.admin.group_preparation import prepare_group
from logd.coord.groups.group_changes import GroupLive, move_positions
from logd.coord.groups.inspection import GroupEntry, UnknownGroup, read_group
from logd.coord.interfaces import ICoordination
from logd.errors import ConfigurationError
from logd.mirror.cluster_search import ClusterAddress, try_cluster, user_of
from logd.mirror.positions.translation import TranslatedPosition, translate_group

_EPILOG = """\b
Examples:
  logd mirror translate billing --from live:2181 --to offline:2181
  logd mirror translate billing --from live:2181 --to offline:2181 --topic web --json
  logd mirror translate billing --from live:2181 --to offline:2181 --apply
"""
_COLUMNS = ("topic", "partition", "position", "from start")


@click.command(short_help="Translate a group's positions to the target.", epilog=_EPILOG)
@group_argument
@cluster_options(required=True)
@click.option("--topic", type=TopicParameter(), help="Only this topic of the source; by default all that are mirrored.")
@click.option("--apply", is_flag=True, help="Store the positions for the group of the same name on the target.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before --apply; scripts need this.")
@json_option
@click.pass_context
def translate(ctx: click.Context, /, **options: Any) -> None:
    """Print where GROUP, which reads the source, may go on at the target without missing a message.

    Some messages are repeated: those that were mirrored between two stored pairs of positions, about a second's, and
    those that the mirror stored twice. The source's coordination tree has to answer; --apply needs --to to name the
    target's tree.
    """
    ctx.exit(run(lambda reactor: _translate(reactor, **options)))


async def _translate(
    reactor: Any,
    group: str,
    source: str,
    target: str,
    source_zookeeper: str | None,
    topic: str | None,
    apply: bool,
    yes: bool,
    as_json: bool,
) -> None:
    source_access = await try_cluster(reactor, ClusterAddress(source, source_zookeeper), True, name="source")
    try:
        target_access = await try_cluster(reactor, ClusterAddress(target), False, name="target")
        admin = target_access.admin()
        try:
            assert source_access.tree is not None  # it was asked for
            topics = None if topic is None else [topic]
            found = await translate_group(group, source_access.tree, admin, target_access.consumer, topics)
            if apply:
                if target_access.tree is None:
                    raise ConfigurationError("--apply needs --to to name the target's coordination tree, not a broker")
                await _apply(reactor, target_access.tree, group, found, yes, as_json)
        finally:
            await admin.close()
            await target_access.close()
    finally:
        await source_access.close()
    if as_json:
        click.echo(json.dumps({"group": group, "applied": apply, "partitions": [_as_json(each) for each in found]}))
    elif yes or not apply:
        show(_COLUMNS, _rows(found))
    if not found:
        complain(f"no mirror has stored pairs of positions of what group {group!r} reads")


async def _apply(
    reactor: Any, tree: ICoordination, group: str, found: list[TranslatedPosition], yes: bool, as_json: bool
) -> None:
    await prepare_group(reactor, tree, group, **user_of("target", os.environ))
    try:
        entry = await read_group(tree, group)
    except UnknownGroup:
        entry = GroupEntry(group)
    if entry.live:
        raise GroupLive(f"group {group!r} is live on the target: stop its consumers first")
    if not yes:
        if is_person_there():
            show_before_asking(_COLUMNS, _rows(found), as_json)
        agree(f"Move group {group} on the target to these positions?")
    await move_positions(tree, group, entry.offsets, {each.where: each.position for each in found})


def _rows(found: list[TranslatedPosition]) -> list[tuple[object, ...]]:
    return [(*each.where, each.position, "yes" if each.from_start else "") for each in found]


def _as_json(each: TranslatedPosition) -> dict[str, Any]:
    return {
        "topic": each.where.topic,
        "partition": each.where.partition,
        "position": each.position,
        "from_start": each.from_start,
        "sources": [
            {"topic": where.topic, "partition": where.partition, "position": position, "pair": pair}
            for where, (position, pair) in sorted(each.sources.items())
        ],
    }
