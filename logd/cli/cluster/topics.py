"""``logd topics``: list, create, describe and delete; ``topic_changes`` has set and grow, ``reassign`` the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from logd.cli.cluster.admin_command import with_admin
from logd.cli.cluster.leaderless import why_leaderless
from logd.cli.cluster.reassign import reassign
from logd.cli.cluster.setting_parameter import SettingsParameter
from logd.cli.cluster.topic_changes import grow, set_settings
from logd.cli.options import broker_option, json_option, topic_argument
from logd.cli.terminal.prompts import agree
from logd.cli.terminal.tables import show
from logd.client.admin.admin import Admin
from logd.client.cluster.describe_log import DESCRIBED_AT_ONCE
from logd.clientcore.addresses import name_of
from logd.config.log import ANY_FORMAT
from logd.deferreds.gathering import gather_some
from logd.errors import LogdError

_CREATE_EPILOG = """\b
Examples:
  logd topics create clicks --partitions 4
  logd topics create orders --partitions 8 --replicas 3 --set min.insync.replicas=2
  logd topics create debug --set retention.ms=3600000 --set segment.bytes=16777216
"""
_DESCRIBE_EPILOG = """\b
Examples:
  logd topics describe clicks
  logd topics describe clicks --json | jq '.partitions[] | {partition, address, bytes}'
"""


@click.group()
def topics() -> None:
    """List, create, describe, change and delete topics."""


topics.add_command(set_settings)
topics.add_command(grow)
topics.add_command(reassign)


@topics.command("list")
@broker_option
@json_option
@click.pass_context
def list_topics(ctx: click.Context, /, broker: str, as_json: bool) -> None:
    """Print every topic and its number of partitions."""

    async def work(admin: Admin) -> None:
        found = sorted((await admin.metadata()).topics, key=lambda topic: topic.topic)
        if as_json:
            click.echo(
                json.dumps([{"topic": t.topic, "uuid": str(t.uuid), "partitions": len(t.partitions)} for t in found])
            )
        else:
            show(["topic", "partitions"], [(topic.topic, len(topic.partitions)) for topic in found])

    with_admin(ctx, broker, work)


@topics.command(epilog=_CREATE_EPILOG)
@topic_argument
@broker_option
@click.option(
    "--partitions",
    "-p",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of partitions.",
)
@click.option(
    "--replicas",
    "-r",
    type=click.IntRange(1),
    default=None,
    metavar="N",
    help="Number of brokers that store each partition. With a coordination tree on one server the messages survive the "
    "loss of a broker, but while that server is away no leader is chosen.  [default: the brokers' default.replicas, "
    "which is 1]",
)
@click.option(
    "--set",
    "settings",
    type=SettingsParameter(),
    multiple=True,
    help="A setting of this topic, such as retention.ms=3600000; may be repeated (docs/configuration.md, Logs).",
)
@json_option
@click.pass_context
def create(
    ctx: click.Context,
    /,
    topic: str,
    broker: str,
    partitions: int,
    replicas: int | None,
    settings: tuple[dict[str, int | str], ...],
    as_json: bool,
) -> None:
    """Create TOPIC. If it exists already, that is an error (exit status 1)."""
    merged = {name: value for each in settings for name, value in each.items()}

    async def work(admin: Admin) -> None:
        uuid = await admin.create(topic, partitions, merged, replicas or 0)
        made = {"topic": topic, "uuid": str(uuid), "partitions": partitions, "settings": merged}
        if as_json:
            click.echo(json.dumps(made if replicas is None else {**made, "replicas": replicas}))
        else:
            copies = f", each on {replicas} brokers" if replicas is not None and replicas > 1 else ""
            click.echo(f"created {topic} with {partitions} partition{'s' if partitions > 1 else ''}{copies}")

    with_admin(ctx, broker, work)


@topics.command(short_help="Print where a topic's partitions are stored.", epilog=_DESCRIBE_EPILOG)
@topic_argument
@broker_option
@json_option
@click.option("--segments", is_flag=True, help="Print each segment too.")
@click.pass_context
def describe(ctx: click.Context, /, topic: str, broker: str, as_json: bool, segments: bool) -> None:
    """Print where each partition of TOPIC is stored, where its log begins and ends, and its size.

    A partition that cannot be described is printed with an error, and the exit status is 1.
    """

    async def work(admin: Admin) -> None:
        found = await admin.describe(topic)
        brokers = (await admin.metadata((topic,))).brokers
        addresses = {broker.id: name_of((broker.host, broker.port)) for broker in brokers}
        described = await gather_some(
            (_described(admin, topic, each, addresses) for each in found.partitions), DESCRIBED_AT_ONCE
        )
        if as_json:
            about = {"topic": topic, "uuid": str(found.uuid), "message_format": found.message_format}
            click.echo(json.dumps({**about, "partitions": described}))
        else:
            if found.message_format != ANY_FORMAT:
                click.echo(f"message.format = {found.message_format}")
            _print_partitions(described)
            if segments:
                _print_segments(described)
        failed = [each for each in described if each["error"] is not None]
        if failed:
            raise LogdError(f"{len(failed)} of {len(described)} partitions cannot be described: {failed[0]['error']}")

    with_admin(ctx, broker, work)


async def _described(admin: Admin, topic: str, partition: Any, addresses: Mapping[int, str]) -> dict[str, Any]:
    """Return the JSON object of one partition: positions and sizes in bytes, times in ms since the epoch.

    ``leader`` is -1, and ``address`` None, when none of the ``brokers`` that store it is live.
    """
    row: dict[str, Any] = {
        "partition": partition.partition,
        "leader": partition.leader,
        "address": addresses.get(partition.leader),
        "brokers": list(partition.replicas),
        "in_sync": list(partition.in_sync),
        "error": None,
    }
    if row["address"] is None:
        return {**row, "error": why_leaderless(topic, partition, addresses)}
    try:
        log = await admin.describe_log(topic, partition.partition)
    except LogdError as error:
        return {**row, "error": str(error)}
    return {
        **row,
        "start": log.log_start,
        "visible_end": log.visible_end,
        "end": log.log_end,
        "bytes": sum(segment.bytes for segment in log.segments),
        "segments": [segment._asdict() for segment in log.segments],
    }


def _print_partitions(described: list[dict[str, Any]]) -> None:
    names = ("partition", "leader", "start", "visible_end", "end", "bytes")
    rows = [
        (*(each.get(name) for name in names), len(each.get("segments", ())), each["error"] or "", each["address"])
        for each in described
    ]
    heads = [*(name.replace("_", " ") for name in names), "segments", "error", "address"]
    if any(len(each["brokers"]) > 1 for each in described):
        heads += ["replicas", "in sync"]
        rows = [
            (*row, " ".join(map(str, each["brokers"])), " ".join(map(str, each["in_sync"])))
            for row, each in zip(rows, described, strict=True)
        ]
    show(heads, rows)


def _print_segments(described: list[dict[str, Any]]) -> None:
    rows = [
        (
            each["partition"],
            segment["start"],
            segment["bytes"],
            datetime.fromtimestamp(segment["modified_ms"] / 1000).astimezone().isoformat(timespec="seconds"),
        )
        for each in described
        for segment in each.get("segments", ())
    ]
    show(["partition", "segment", "bytes", "last written"], rows)


@topics.command(short_help="Delete a topic and every message in it.")
@topic_argument
@broker_option
@click.option("--yes", "-y", is_flag=True, help="Do not ask; scripts need this.")
@json_option
@click.pass_context
def delete(ctx: click.Context, /, topic: str, broker: str, yes: bool, as_json: bool) -> None:
    """Delete TOPIC and every message in it. Asks first; without a terminal on standard input, --yes is required."""

    async def work(admin: Admin) -> None:
        if not yes:
            await admin.describe(topic)  # a topic that is not there is told before anything is asked
            agree(f"Delete topic {topic} and every message in it?")
        await admin.delete(topic)
        click.echo(json.dumps({"topic": topic, "deleted": True}) if as_json else f"deleted {topic}")

    with_admin(ctx, broker, work)
