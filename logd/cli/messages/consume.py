"""``logd consume``: writes the messages of a topic to standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click
from attrs import frozen
from click.core import ParameterSource

from logd.cli.messages.avro_lines import (
    AVRO,
    complain_of_undecoded,
    end_rendering,
    registry_option,
    rendered,
    renderer_of,
    store_undecoded,
)
from logd.cli.messages.failures import complain_of, complain_of_rest
from logd.cli.messages.gone_topic import read_while_there
from logd.cli.messages.group_consume import LEAVE_SECONDS, consume_as_member
from logd.cli.messages.start_option import ALLOWED, StartParameter
from logd.cli.options import (
    GroupParameter,
    TopicParameter,
    audit_options,
    broker_option,
    decompression_options,
    topic_argument,
    zookeeper_option,
)
from logd.cli.reactor_command import run
from logd.cli.stopping import Stopping
from logd.cli.terminal.blocking_calls import BackgroundThread
from logd.cli.terminal.exits import complain
from logd.cli.terminal.output import Output
from logd.cli.terminal.progress import ProgressLine
from logd.cli.terminal.rendering import FORMATS
from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.fetching.losses import LossReporter
from logd.client.starting_positions import Position, Start, Time
from logd.errors import OffsetOutOfRange, UnknownTopic, WrongPartition
from logd.plurals import counted

_EPILOG = """\b
Examples:
  logd consume clicks --exit-at-end | wc -l
  logd consume clicks --from latest
  logd consume clicks --from 2011-11-11T06:00:00Z --max 10 --format json
  logd consume clicks --partition 3 --from 1048576
  logd consume clicks --group billing --from latest
"""


@click.command(epilog=_EPILOG)
@topic_argument
@broker_option
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only this partition; by default all of them.")
@click.option(
    "--group",
    type=GroupParameter(),
    help="Share the topic with the other consumers of this group, from its stored positions on.",
)
@zookeeper_option
@click.option(
    "--from",
    "start",
    type=StartParameter(),
    default="earliest",
    show_default=True,
    help=f"Where to begin: {ALLOWED}. A position needs --partition. With --group this is for a new group.",
)
@click.option("--max", "most", type=click.IntRange(0), metavar="N", help="End after N messages.")
@click.option(
    "--exit-at-end",
    is_flag=True,
    help="End where the log ended when the command began; with --group, once the group has handled everything before.",
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(sorted([*FORMATS, AVRO])),
    default="raw",
    show_default=True,
    help="raw: each payload and a newline; json: one object per line; avro: the same, with the value decoded.",
)
@click.option(
    "--on-corrupt",
    type=click.Choice(["fail", "skip", "dead-letter"]),
    default="fail",
    show_default=True,
    help="Fail at damaged messages (checksum mismatch), skip them, or store them in --dead-letters and go on.",
)
@click.option(
    "--dead-letters",
    type=TopicParameter(),
    help="With --on-corrupt dead-letter: the topic for them (see logd dead-letters).",
)
@decompression_options
@audit_options
@registry_option
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
@click.pass_context
def consume(ctx: click.Context, /, group: str | None, zookeeper: str, **options: Any) -> None:
    """Write the messages of TOPIC to standard output, and wait for more.

    Messages of one partition are in order. With --format json an object has the fields topic, partition, id,
    next_position (give it to --from to go on after the message), timestamp, key, headers and value. Bytes that are not
    UTF-8 are in key_base64 and value_base64 instead. With --format avro the value is an object, in Avro's JSON
    encoding, and schema is the id of its schema; --on-corrupt applies to values that cannot be decoded too.

    With --group a message counts as handled once it is written to standard output. The group's positions are stored
    every five seconds and at the end, also after an interruption: then other members take over at once, and nothing is
    delivered twice. Brokers are found in the coordination tree, unless --broker is given.
    """
    given = ctx.get_parameter_source
    options["dead_letters"] = options["dead_letters"] or ""
    if (options["on_corrupt"] == "dead-letter") != bool(options["dead_letters"]):
        raise click.UsageError("--on-corrupt dead-letter and --dead-letters TOPIC go together")
    if options["dead_letters"] == options["topic"]:
        raise click.UsageError("--dead-letters is the topic itself: name another topic")
    damage = ("on_corrupt", "dead_letters")
    reading = (*damage, "max_decompressed", "max_decompressed_messages", "audit", "server", "audit_window")
    options["reading"] = {name: options.pop(name) for name in reading}
    if group is not None:
        if options["partition"] is not None or isinstance(options["start"], Position):
            raise click.UsageError(
                "--partition and positions cannot be used with --group: a group distributes partitions itself"
            )
        if given("broker") is ParameterSource.DEFAULT:
            options["broker"] = None
        del options["partition"]
        stopping = Stopping(
            "until what was read is written, and "
            f"up to {LEAVE_SECONDS:.0f} s for the coordination tree to note the positions"
        )
        ctx.exit(run(lambda reactor: consume_as_member(reactor, group=group, zookeeper=zookeeper, **options), stopping))
    if given("zookeeper") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--zookeeper needs --group: without a group only the brokers are asked")
    if isinstance(options["start"], Position) and options["partition"] is None:
        raise click.UsageError("--from with a position needs --partition: each partition counts its own bytes")
    ctx.exit(run(lambda reactor: _consume(reactor, **options)))


async def _consume(
    reactor: Any,
    topic: str,
    broker: str,
    partition: int | None,
    start: Start,
    most: int | None,
    exit_at_end: bool,
    shape: str,
    reading: Mapping[str, Any],
    registry: str,
    quiet: bool,
) -> None:
    render = renderer_of(reactor, shape, registry, reading["on_corrupt"])
    written = WrittenTopic(reactor, topic, render, most, quiet)
    admin = Admin(broker, reactor=reactor)
    try:
        uuid = (await admin.describe(topic)).uuid if exit_at_end else ""
        partitions = await _partitions(admin, topic, partition, exit_at_end)
        starts, until = await _bounds(admin, topic, partitions, start) if exit_at_end else (start, None)
        if most == 0 or until == {}:
            return
        consumer = Consumer(broker, reactor=reactor, on_out_of_range="fail", **reading)
        try:
            store_undecoded(render, consumer, reading["dead_letters"])
            reading_all = written.read(consumer, partitions, starts, until)
            if exit_at_end:
                await read_while_there(reactor, admin, topic, uuid, reading_all)
            else:
                await admin.close()
                await reading_all
        finally:
            await consumer.close()
            await end_rendering(render)
    finally:
        await admin.close()


@frozen
class WrittenTopic:
    """The writing of a topic's messages to standard output, of at most ``most`` if that is a number."""

    _reactor: Any
    _topic: str
    _render: Any
    _most: int | None
    _quiet: bool

    async def read(self, consumer: Consumer, partitions: list[int] | None, start: Any, until: Any) -> None:
        """Read and write, to the ends ``until`` if there are some, and tell what was left out."""
        (stream,) = consumer.create_message_streams(self._topic, 1, partitions, start=start)
        output = Output(BackgroundThread(self._reactor))
        left = self._most
        losses = LossReporter()
        with ProgressLine(f"from {self._topic}", self._most, self._quiet or sys.stdout.isatty()) as progress:
            async for batch in stream.batches(until):
                complain_of(losses, batch)
                messages = batch.messages[:left]
                await output.write(await rendered(self._render, messages))
                progress.advance(len(messages), len(messages))
                if left is not None:
                    left -= len(messages)
                    if left == 0:
                        break
        if stream.skipped:
            complain(f"skipped {counted(stream.skipped, 'damaged range')}, {counted(stream.skipped_bytes, 'byte')}")
        complain_of_rest(losses)
        complain_of_undecoded(self._render)


async def _partitions(admin: Admin, topic: str, partition: int | None, must_exist: bool) -> list[int] | None:
    """The partitions to read; None to have the consumer wait for a topic that does not exist yet."""
    try:
        there = [each.partition for each in (await admin.describe(topic)).partitions]
    except UnknownTopic:
        if must_exist:
            raise
        complain(f"there is no topic {topic!r} yet; waiting for it")
        return None if partition is None else [partition]
    if partition is None:
        return there
    if partition not in there:
        raise WrongPartition(f"topic {topic!r} has no partition {partition}: it has {len(there)}, numbered from 0")
    return [partition]


async def _bounds(
    admin: Admin, topic: str, partitions: list[int] | None, start: Start
) -> tuple[Mapping[int, Start], Mapping[int, int]]:
    """Return where to begin in each partition, and the ends of those that are not at their end already."""
    starts: dict[int, Start] = {}
    until = {}
    time = start.milliseconds if isinstance(start, Time) else -1
    for each, log in (await admin.describe_logs(topic, partitions or (), time=time)).items():
        if start == "earliest":
            begin = log.log_start
        elif start == "latest":
            begin = log.visible_end
        elif isinstance(start, Time):
            begin = log.time_position if log.time_position >= 0 else log.visible_end
        else:
            begin = start.value if isinstance(start, Position) else int(start)
            if not log.log_start <= begin <= log.visible_end:
                raise OffsetOutOfRange(
                    f"topic {topic!r}, partition {each}: {begin} is not in the log, "
                    f"which is {log.log_start} to {log.visible_end}"
                )
        starts[each] = Position(begin)
        if begin < log.visible_end:
            until[each] = log.visible_end
    return starts, until
