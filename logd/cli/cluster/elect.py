"""``logd elect``: let preferred leaders lead, or replicas that may lack messages where no other one is left."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any

import click

from logd.cli.cluster.admin_command import described_again, with_admin
from logd.cli.cluster.leaderless import why_leaderless
from logd.cli.cluster.unclean_elections import elect_uncleanly
from logd.cli.options import TopicParameter, broker_option, json_option, wait_option
from logd.cli.terminal.tables import show
from logd.client.admin.admin import Admin
from logd.deferreds.sleeping import sleep
from logd.errors import InvalidRequest, LogdError
from logd.leadership import NO_LEADER
from logd.plurals import counted
from logd.protocol.requests.metadata import PartitionMetadata, TopicMetadata
from logd.protocol.requests.replicas.operations import ANY_LEADER

#: Seconds between two looks at the leaders.
LOOK_SECONDS = 0.1

_EPILOG = """\b
Examples:
  logd elect                       # the preferred leader of every partition that can have it
  logd elect orders --partition 3
  logd elect orders --unclean      # shows what would be lost, and asks
  logd elect orders --cancel       # takes back what was asked for, and is not done yet
"""


@click.command(short_help="Choose leaders anew.", epilog=_EPILOG)
@click.argument("topic", type=TopicParameter(), required=False)
@click.option(
    "--partition", "-p", "partitions", type=click.IntRange(0), multiple=True, help="Only this one; may be repeated."
)
@click.option("--unclean", is_flag=True, help="Let replicas lead that may lack messages, where no leader is left.")
@click.option("--cancel", is_flag=True, help="Take back elections that were asked for and are not held yet.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; scripts need this.")
@wait_option
@broker_option
@json_option
@click.pass_context
def elect(
    ctx: click.Context,
    /,
    topic: str | None,
    partitions: tuple[int, ...],
    unclean: bool,
    cancel: bool,
    yes: bool,
    timeout: float,
    broker: str,
    as_json: bool,
) -> None:
    """Let the first replica of each partition of TOPIC lead, if it is in sync; without TOPIC, of every topic.

    With --unclean the command is for partitions without a leader, since no replica is live that has every message: the
    live replica with the most leads, and what it lacks is lost. The command shows that by position, and asks. Should
    that replica's broker die in that moment, the election waits for it; --cancel takes it back.
    """
    if topic is None and (unclean or cancel or partitions):
        raise click.UsageError("name the topic")
    if unclean and cancel:
        raise click.UsageError("--cancel takes back what was asked for: give it without --unclean")

    async def work(admin: Admin) -> None:
        from twisted.internet import reactor  # its import installs a reactor, so not before one is needed

        if topic is not None:
            found = [await admin.describe(topic)]
        else:
            found = [each for each in (await admin.metadata()).topics if not each.error]
        chosen = {each.topic: _chosen(each, partitions) for each in found}
        if unclean:
            assert topic is not None
            await elect_uncleanly(reactor, admin, found[0], chosen[topic], yes, timeout, as_json)
            return
        if cancel:
            assert topic is not None
            _print_withdrawn(topic, await admin.withdraw_elections(topic, sorted(set(partitions))), as_json)
            return
        rows, draining = [], await admin.draining()
        live = {each.id for each in (await admin.metadata(())).brokers}
        for each in found:
            rows += await _elect_preferred(reactor, admin, each, chosen[each.topic], draining, live, timeout)
        _print_preferred(rows, as_json)

    with_admin(ctx, broker, work)


def _chosen(topic: TopicMetadata, numbers: Sequence[int]) -> list[PartitionMetadata]:
    """Return the partitions named, all if none is. Raises LogdError for one that is not there."""
    known = {each.partition: each for each in topic.partitions}
    for number in numbers:
        if number not in known:
            raise LogdError(f"topic {topic.topic} has no partition {number}; it has {len(known)}")
    return [known[number] for number in sorted(set(numbers))] if numbers else list(topic.partitions)


def _print_withdrawn(topic: str, numbers: Sequence[int], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"topic": topic, "withdrawn": list(numbers)}))
    elif not numbers:
        click.echo(f"no election of {topic} is waiting to be held")
    for number in () if as_json else numbers:
        click.echo(f"the election of {topic}-{number} is withdrawn")


# Preferred leaders


async def _elect_preferred(
    reactor: Any,
    admin: Admin,
    topic: TopicMetadata,
    partitions: Sequence[PartitionMetadata],
    draining: Sequence[int],
    live: Container[int],
    timeout: float,
) -> list[dict[str, Any]]:
    """Have preferred leaders lead where they can; return a row for each partition that another broker led."""
    moving = {each.partition: each for each in partitions if each.leader != each.replicas[0]}
    reasons = {number: _reason(topic.topic, each, draining, live) for number, each in moving.items()}
    able = [number for number, reason in reasons.items() if not reason]
    if able:
        try:
            await admin.elect(topic.topic, dict.fromkeys(able, ANY_LEADER), uuid=topic.uuid)
        except InvalidRequest as error:  # as while an unclean election of the topic waits: the others are asked for
            reasons.update(dict.fromkeys(able, str(error)))
            able = []
    until = reactor.seconds() + timeout
    now = {each.partition: each for each in topic.partitions}
    while any(now[number].leader != now[number].replicas[0] for number in able) and reactor.seconds() < until:
        await sleep(reactor, LOOK_SECONDS)
        now = {each.partition: each for each in (await described_again(admin, topic)).partitions}
    return [
        {
            "topic": topic.topic,
            "partition": number,
            "preferred": each.replicas[0],
            "before": each.leader,
            "leader": now[number].leader,
            "reason": reasons[number] or ("" if now[number].leader == each.replicas[0] else "it is not done yet"),
        }
        for number, each in moving.items()
    ]


def _reason(topic: str, partition: PartitionMetadata, draining: Sequence[int], live: Container[int]) -> str:
    """Return why the preferred leader cannot lead a partition now; empty if it can."""
    preferred = partition.replicas[0]
    if partition.leader == NO_LEADER:
        return why_leaderless(topic, partition, live)
    if preferred in draining:
        return f"broker {preferred} is drained"
    return "" if preferred in partition.in_sync else f"broker {preferred} is not in sync"


def _print_preferred(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"partitions": rows}))
    elif rows:
        names = ("topic", "partition", "preferred", "before", "leader", "reason")
        show([*names], [tuple(row[name] for name in names) for row in rows])
    else:
        click.echo("every partition is led by its preferred leader")
    left = [row for row in rows if row["leader"] != row["preferred"]]
    if left:
        raise LogdError(f"{counted(len(left), 'partition')} not led by the preferred leader: {left[0]['reason']}")
