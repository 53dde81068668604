"""``logd topics reassign``: give the partitions of a topic other replicas while they are used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click
from attrs import frozen

from logd.cli.cluster.admin_command import with_admin
from logd.cli.options import broker_option, json_option, topic_argument
from logd.cli.terminal.byte_progress import BytesProgress
from logd.cli.terminal.prompts import agree
from logd.cli.terminal.tables import show
from logd.client.admin.admin import Admin
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError
from logd.plurals import counted
from logd.protocol.requests.metadata import PartitionMetadata, TopicMetadata
from logd.protocol.requests.replicas.describe_replicas import LEADS, DescribedReplica, DescribeReplicasResponse
from logd.protocol.requests.replicas.operations import MovedPartition, ReassignResponse

#: Seconds between two looks at the progress.
LOOK_SECONDS = 0.5
#: Looks at which the brokers tell of another reassignment, or of none, before this one is given up.
STRANGE_LOOKS = 4
#: The throttle of a reassignment that nothing but the brokers' own setting limits; and the least other one.
NO_THROTTLE, LEAST_THROTTLE = 0, 1024

_EPILOG = """\b
Examples:
  logd topics reassign orders --replicas 3                # three replicas of each partition
  logd topics reassign orders --brokers 1,2,4             # away from all other brokers
  logd topics reassign orders --place 0=2,3 --place 1=3,4 # exactly so; the preferred leader first
  logd topics reassign orders --replicas 3 --throttle 20000000
  logd topics reassign orders                             # show how far it is
  logd topics reassign orders --throttle 5000000          # another limit for the one under way
  logd topics reassign orders --throttle none             # no limit for it any longer
  logd topics reassign orders --cancel
"""


@frozen
class ReassignOptions:
    """The options of ``logd topics reassign`` that are no part of a plan."""

    #: The most bytes a second that each leader sends to new replicas; NO_THROTTLE: the brokers' own setting. None: that
    #: as well, or, for a reassignment that is under way, the limit that it has.
    throttle: int | None = None
    dry_run: bool = False
    no_wait: bool = False
    yes: bool = False
    as_json: bool = False


class BrokerIdsParameter(click.ParamType[tuple[int, ...]]):
    """Ids of different brokers, separated by commas."""

    name = "ID,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Refuse what is no list of different ids."""
        texts = [each.strip() for each in str(value).split(",")]
        if not all(each.isascii() and each.isdecimal() for each in texts) or len(set(map(int, texts))) != len(texts):
            self.fail(f"{value!r} is no list of different brokers, such as 1,2,3", param, ctx)
        return tuple(map(int, texts))


class PlaceParameter(click.ParamType[tuple[int, tuple[int, ...]]]):
    """A partition and the brokers that are to store it."""

    name = "PARTITION=ID,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, tuple[int, ...]]:
        """Refuse what is no partition with a list of brokers."""
        number, equals, brokers = str(value).partition("=")
        if not equals or not (number.isascii() and number.isdecimal()):
            self.fail(f"{value!r} is no partition with its brokers, such as 0=1,2", param, ctx)
        return int(number), BrokerIdsParameter().convert(brokers, param, ctx)


class ThrottleParameter(click.ParamType[int]):
    """Bytes a second, or ``none``."""

    name = "BYTES|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Refuse what is neither."""
        text = str(value)
        rate = NO_THROTTLE if text == "none" else int(text) if text.isascii() and text.isdecimal() else -1
        if rate != NO_THROTTLE and rate < LEAST_THROTTLE:
            self.fail(f"{text!r} is no number of bytes a second from {LEAST_THROTTLE} on, or none", param, ctx)
        return rate


@click.command(short_help="Give a topic's partitions other replicas.", epilog=_EPILOG)
@topic_argument
@click.option(
    "--replicas", "-r", type=click.IntRange(1), metavar="N", help="Number of brokers that store each partition."
)
@click.option(
    "--brokers",
    type=BrokerIdsParameter(),
    default=None,
    help="The brokers to spread the replicas over.  [default: all]",
)
@click.option("--place", type=PlaceParameter(), multiple=True, help="The brokers of one partition; may be repeated.")
@click.option(
    "--throttle",
    type=ThrottleParameter(),
    metavar="BYTES|none",
    help="The most bytes a second that each leader sends to new replicas, 1024 at least; by default, and with none, as "
    "many as the brokers' own setting allows.",
)
@click.option("--cancel", is_flag=True, help="End the reassignment under way; what is not done yet goes back.")
@click.option("--dry-run", is_flag=True, help="Show the plan, and change nothing.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is done.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; scripts need this.")
@broker_option
@json_option
@click.pass_context
def reassign(
    ctx: click.Context,
    /,
    topic: str,
    replicas: int | None,
    brokers: tuple[int, ...] | None,
    place: tuple[tuple[int, tuple[int, ...]], ...],
    throttle: int | None,
    cancel: bool,
    dry_run: bool,
    no_wait: bool,
    yes: bool,
    broker: str,
    as_json: bool,
) -> None:
    """Store the partitions of TOPIC on other brokers, or on more or fewer of them, while they are used.

    Shows the plan, asks, and waits until it is done; the brokers go on when the command ends. New replicas copy the
    logs first, and only then are others given up. Without a plan it shows how far the one under way is, and does not
    wait; --throttle limits that one anew, and --throttle none takes its limit off. The same plan given again waits for
    the one under way.
    """
    planned = bool(replicas or brokers or place)
    if place and (replicas or brokers):
        raise click.UsageError("--place says where each replica is: give it without --replicas and --brokers")
    if cancel and (planned or throttle is not None):
        raise click.UsageError("--cancel takes no plan and no --throttle")
    options = ReassignOptions(throttle, dry_run, no_wait, yes, as_json)

    async def work(admin: Admin) -> None:
        from twisted.internet import reactor  # its import installs a reactor, so not before one is needed

        if cancel:
            _print_cancelled(topic, await admin.cancel_reassignment(topic), as_json)
            return
        plan = None
        if planned:
            plan = await admin.reassign(
                topic, dict(place), brokers=brokers or (), replicas=replicas or 0, plan_only=True
            )
        await reassign_topic(reactor, admin, topic, plan, options)

    with_admin(ctx, broker, work)


async def reassign_topic(
    reactor: Any, admin: Admin, topic: str, plan: ReassignResponse | None, options: ReassignOptions
) -> None:
    """Have a plan carried out and wait for it as the options say, or show how far the one under way is (None).

    Raises LogdError.
    """
    going = await under_way(admin, topic)
    if plan is None:
        if going.moved and options.throttle is not None and not options.dry_run:
            await _ask(admin, topic, going, True, options)
        await _show_progress(admin, topic, going, options.as_json)
        return
    wanted = {each.partition: each.wanted for each in going.moved}
    is_going = bool(plan.moved) and all(wanted.get(each.partition) == each.wanted for each in plan.moved)
    if not options.as_json and plan.moved:
        _print_plan(plan)
    if not plan.moved and not options.as_json:
        click.echo(f"nothing to do: {topic} has these replicas already")
    complete = not plan.moved
    if plan.moved and not options.dry_run:
        await _ask(admin, topic, plan, is_going, options)
        if not options.no_wait:
            await wait_until_done(reactor, admin, topic, plan.moved, quiet=options.as_json)
            complete = True
            if not options.as_json:
                click.echo(f"the reassignment of {topic} is complete")
    if options.as_json:
        _print_json(topic, plan, complete)


async def _ask(admin: Admin, topic: str, plan: ReassignResponse, is_going: bool, options: ReassignOptions) -> None:
    """Ask the brokers for a plan, or for another limit if just that ``is_going`` on."""
    wanted, rate = {each.partition: each.wanted for each in plan.moved}, options.throttle or NO_THROTTLE
    if is_going:
        if options.throttle is not None:
            await admin.reassign(topic, wanted, rate=rate, uuid=plan.uuid)
        if not options.as_json:
            click.echo(f"this reassignment of {topic} is under way already{_new_limit(options.throttle)}")
        return
    if not options.yes:
        copies = _copies(plan.moved)
        what = f"Copy {counted(copies, 'replica')}" if copies else f"Change {counted(len(plan.moved), 'partition')}"
        agree(f"{what} of topic {topic}?")
    await admin.reassign(topic, wanted, rate=rate, uuid=plan.uuid)


async def _show_progress(admin: Admin, topic: str, going: ReassignResponse, as_json: bool) -> None:
    """Print each partition that is not done, with the bytes that its new replicas have and need."""
    described, new = await admin.describe_replicas(topic), _new_replicas(await admin.describe(topic), going.moved)
    progress = {number: _copied(described, {number: brokers}) for number, brokers in new.items()}
    if as_json:
        _print_json(topic, going, not going.moved, progress)
    elif going.moved:
        rows = [(m.partition, _listed(m.replicas), _listed(m.wanted), *progress[m.partition]) for m in going.moved]
        show(["partition", "replicas now", "replicas planned", "bytes copied", "bytes to copy"], rows)
    else:
        click.echo(f"no reassignment of {topic} is under way")
    live = {each.id for each in (await admin.metadata(())).brokers}
    for broker in sorted({broker for each in going.moved for broker in each.wanted} - live):
        click.echo(
            f"broker {broker} is not live, and the reassignment waits for it: start it, give another plan, or --cancel",
            err=True,
        )


def _new_limit(throttle: int | None) -> str:
    if throttle is None:
        return ""
    if throttle == NO_THROTTLE:
        return "; nothing but the brokers' own setting limits it from now on"
    return f"; each leader sends at most {throttle} bytes a second for it from now on"


def _copies(moved: Sequence[MovedPartition]) -> int:
    return sum(len(set(each.wanted) - set(each.replicas)) for each in moved)


def _print_plan(plan: ReassignResponse) -> None:
    rows = [(each.partition, _listed(each.replicas), _listed(each.wanted)) for each in plan.moved]
    show(["partition", "replicas now", "replicas planned"], rows)


def _print_cancelled(topic: str, answer: ReassignResponse, as_json: bool) -> None:
    if as_json:
        _print_json(topic, answer, False)
    elif not answer.moved:
        click.echo(f"no reassignment of {topic} is under way")
    for each in () if as_json else answer.moved:
        click.echo(f"{topic}-{each.partition} goes back to {_listed(each.wanted)}")


def _print_json(
    topic: str, plan: ReassignResponse, complete: bool, progress: Mapping[int, tuple[int, int]] | None = None
) -> None:
    partitions = [
        {"partition": each.partition, "replicas": list(each.replicas), "planned": list(each.wanted)}
        | (dict(zip(("copied", "bytes"), progress[each.partition], strict=True)) if progress is not None else {})
        for each in plan.moved
    ]
    click.echo(json.dumps({"topic": topic, "uuid": plan.uuid, "complete": complete, "partitions": partitions}))


def _listed(brokers: Sequence[int]) -> str:
    return " ".join(map(str, brokers))


async def under_way(admin: Admin, topic: str) -> ReassignResponse:
    """Return what is left of a reassignment, as the brokers tell it; nothing moves if there is none."""
    found, planned = await admin.describe(topic), _planned(await admin.describe_replicas(topic))
    moved = [
        MovedPartition(each.partition, each.replicas, planned[each.partition])
        for each in found.partitions
        if each.partition in planned and not _has(each, planned[each.partition])
    ]
    return ReassignResponse(0, found.uuid, tuple(moved))


async def wait_until_done(
    reactor: Any, admin: Admin, topic: str, moved: Sequence[MovedPartition], *, quiet: bool
) -> None:
    """Show the bytes that the new replicas have, until each partition has the replicas that were planned, in sync.

    Raises LogdError if the reassignment is cancelled or replaced meanwhile, or the topic is deleted.
    """
    found = await admin.describe(topic)
    new = _new_replicas(found, moved)
    strange = 0
    with BytesProgress(f"copying {topic}", 0, quiet) as progress:
        while not _is_done(found, moved):
            described = await admin.describe_replicas(topic)
            planned = _planned(described)
            # Brokers learn of the end of a reassignment one after the other, so that a single look proves nothing.
            is_strange = bool(described) and any(planned.get(each.partition) != each.wanted for each in moved)
            strange = strange + 1 if is_strange else 0
            if strange >= STRANGE_LOOKS:
                raise LogdError(f"the reassignment of {topic} was cancelled, or replaced by another one")
            progress.reach(*_copied(described, new))
            await sleep(reactor, LOOK_SECONDS)
            found = await admin.describe(topic)


def _new_replicas(found: TopicMetadata, moved: Sequence[MovedPartition]) -> dict[int, set[int]]:
    """Return the brokers that are to store each partition and are not in sync yet."""
    in_sync = {each.partition: each.in_sync for each in found.partitions}
    return {each.partition: set(each.wanted) - {*in_sync.get(each.partition, ())} for each in moved}


def _has(partition: PartitionMetadata, wanted: Sequence[int]) -> bool:
    """Return whether a partition has the wanted replicas, all of them in sync."""
    return partition.replicas == tuple(wanted) and set(wanted) <= set(partition.in_sync)


def _is_done(found: TopicMetadata, moved: Sequence[MovedPartition]) -> bool:
    partitions = {each.partition: each for each in found.partitions}
    return all(each.partition in partitions and _has(partitions[each.partition], each.wanted) for each in moved)


def _planned(described: Mapping[int, DescribeReplicasResponse]) -> dict[int, tuple[int, ...]]:
    return {each.partition: each.wanted for answer in described.values() for each in answer.replicas if each.wanted}


def _copied(described: Mapping[int, DescribeReplicasResponse], new: Mapping[int, set[int]]) -> tuple[int, int]:
    """Return the bytes that new replicas have, and those that they are to have, as the leaders tell them."""
    done = total = 0
    for answer in described.values():
        for each in answer.replicas:
            if each.role == LEADS and each.partition in new:
                size = each.end - each.start
                total += size * len(new[each.partition])
                done += sum(_copied_by(each, broker) for broker in new[each.partition])
    return done, total


def _copied_by(leader: DescribedReplica, broker: int) -> int:
    ends = [each.flushed_end for each in leader.followers if each.broker == broker]
    return max(ends[0] - leader.start, 0) if ends else 0
