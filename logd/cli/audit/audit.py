"""``logd audit``: compares the counts of producers with those of mirrors, consumers and imports."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import click
from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.audit.event import AUDIT_TOPIC, decode_event
from logd.audit.reconciliation import Reconciliation
from logd.audit.verdict_fields import as_json_line
from logd.audit.verdicts import DEFAULT_GRACE, Verdict, judge
from logd.audit.windows import DEFAULT_WIDTH, MOST_WIDTH
from logd.cli.audit.report import COLUMNS, as_row, findings, write_metrics
from logd.cli.audit.verdict_table import write_verdicts
from logd.cli.broker_search import broker_search_option, brokers_at, cluster_place
from logd.cli.messages.start_option import parse_start
from logd.cli.options import TopicParameter, broker_option, json_option
from logd.cli.reactor_command import run
from logd.cli.terminal.exits import complain
from logd.cli.terminal.tables import show
from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.starting_positions import Start, Time
from logd.clientcore.addresses import Address
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError, UnknownTopic
from logd.plurals import counted

#: Seconds between two looks at the windows with --follow.
FOLLOW_SECONDS = 1.0
#: The most lines about missing messages; --json has all.
MOST_FINDINGS = 20

_EPILOG = """\b
Examples:
  logd audit --topic clicks
  logd audit --from 2011-11-11T00:00 --to 2011-11-12T00:00 --json
  logd audit --parquet /data/verdicts
  logd audit --follow
  logd audit --zookeeper zk1:2181,zk2:2181/logd
"""


class TimeParameter(click.ParamType[int]):
    """A time, as ``--from`` of ``logd consume`` takes it, in ms since the epoch."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Refuse any other value."""
        try:
            found = parse_start(str(value))
        except ValueError:
            found = None
        if isinstance(found, Time):
            return found.milliseconds
        self.fail(
            f"{value!r} is not allowed; allowed is a time such as 2011-11-11T06:00:00Z (local time without a zone), or "
            "seconds since 1970 such as @1320991200",
            param,
            ctx,
        )


class MessagesMissing(LogdError):
    """Messages that producers were told to be stored are missing."""


@frozen(kw_only=True)
class Question:
    """The windows that are asked for. Times are in ms."""

    topics: frozenset[str]
    begin: int | None
    end: int | None
    width: int
    grace: int

    def verdicts(self, sums: Reconciliation) -> Iterator[Verdict]:
        """Return the verdicts at the present time."""
        now = time.time_ns() // 1_000_000
        return judge(sums, now, grace=self.grace, begin=self.begin or 0, end=self.end)


@click.command(epilog=_EPILOG)
@click.option(
    "--topic", "topics", type=TopicParameter(), multiple=True, help="This topic alone; may be repeated. By default all."
)
@click.option("--from", "begin", type=TimeParameter(), help="Windows that begin at or after this time.")
@click.option("--to", "end", type=TimeParameter(), help="Windows that begin before this time.")
@click.option(
    "--window",
    type=click.FloatRange(0.001, MOST_WIDTH / 1000),
    default=DEFAULT_WIDTH / 1000,
    show_default=True,
    metavar="SECONDS",
    help="Width of the windows: that of the reporters, or a multiple of it.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0.0),
    default=DEFAULT_GRACE / 1000,
    show_default=True,
    metavar="SECONDS",
    help="Judge a window this long after its end; until then differences are unaccounted.",
)
@click.option("--follow", is_flag=True, help="Go on: print each window once it is judged.")
@click.option("--metrics", type=click.Path(dir_okay=False), help="Write totals to this file, in Prometheus' format.")
@click.option(
    "--parquet",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Add the verdicts to the table in this folder: Parquet, a file for each date; needs pyarrow. Run the command "
    "as often as you like: rows of windows judged again are replaced, all others stay.",
)
@broker_option
@broker_search_option
@json_option
@click.pass_context
def audit(ctx: click.Context, /, broker: str, zookeeper: str | None, **options: Any) -> None:
    """Compare what producers sent with what mirrors, consumers and imports saw, by topic and window of time.

    The counts are those of audited clients (audit=True, --audit) in topic _audit. A line has the topic, the window's
    start, the tier, the messages expected and seen, and of these: missing (acknowledged to the producer, and not
    here), duplicated, and unaccounted (no producer has counted them yet, this tier has not read so far, or a reporter
    died before its last count). Ends with status 1 if messages are missing, and names their servers and windows.
    """
    place = cluster_place(ctx, broker, zookeeper)

    async def running(reactor: Any) -> None:
        await _audit(reactor, await brokers_at(reactor, place), **options)

    ctx.exit(run(running))


async def _audit(
    reactor: Any,
    brokers: str | Sequence[Address],
    topics: tuple[str, ...],
    begin: int | None,
    end: int | None,
    window: float,
    grace: float,
    follow: bool,
    metrics: str | None,
    parquet: str | None,
    as_json: bool,
) -> None:
    question = Question(
        topics=frozenset(topics), begin=begin, end=end, width=round(window * 1000), grace=round(grace * 1000)
    )
    events = EventReader(Reconciliation(question.width, question.topics))
    async with Consumer(brokers, reactor=reactor, on_corrupt="skip") as consumer:
        await _check_topic(reactor, brokers)
        start: Start = "earliest" if begin is None else Time(max(0, begin - question.width))
        (stream,) = consumer.create_message_streams(AUDIT_TOPIC, 1, start=start)
        await stream.assigned()
        until = await stream.end_positions()
        async for batch in stream.batches(until):
            events.read(batch)
        events.report()
        verdicts = list(question.verdicts(events.sums))
        _print(verdicts, as_json)
        if not verdicts:
            complain(nothing_found(topics))
        failures = [verdict for verdict in verdicts if verdict.failed]
        _export(verdicts, metrics, parquet)
        if follow:
            following = _follow(reactor, stream.batches(), events, question, verdicts)
            async with aclosing(following) as changes:
                async for changed in changes:
                    _print(changed, as_json)
                    for finding in findings(changed):
                        complain(finding)
                    _export(list(question.verdicts(events.sums)), metrics, parquet)
    if failures:
        found = findings(failures)
        for finding in found[:MOST_FINDINGS]:
            complain(finding)
        missing = sum(verdict.missing for verdict in failures)
        raise MessagesMissing(f"{counted(missing, 'message')} missing, in {counted(len(failures), 'window')}")


def nothing_found(topics: Collection[str]) -> str:
    """Return the line for an audit without a verdict."""
    named = ", ".join(sorted(topics)) or "any topic"
    return (
        f"topic {AUDIT_TOPIC} has no counts of {named} in these windows: are their producers audited (--audit, "
        "audit=True)?"
    )


@define
class EventReader:
    """The events that were read, and what was not one."""

    sums: Reconciliation
    #: Messages that are no events, and the first reason.
    wrong: int = field(default=0, init=False)
    reason: str = field(default="", init=False)

    def read(self, batch: MessageBatch) -> None:
        """Add the events of a batch."""
        for message in batch.messages:
            try:
                event = decode_event(message.payload)
            except ValueError as error:
                self.wrong += 1
                self.reason = self.reason or f"id {message.id} of partition {message.partition}: {error}"
            else:
                self.sums.add(event)

    def report(self) -> None:
        """Say what cannot be compared."""
        if self.wrong:
            complain(f"{counted(self.wrong, 'message')} of topic {AUDIT_TOPIC} left out as no events; {self.reason}")
        if self.sums.unfit:
            complain(
                f"{counted(self.sums.unfit, 'event')} left out, whose windows are not parts of windows of "
                f"{self.sums.width / 1000:g} s: choose another --window"
            )
        for reporter, lost in self.sums.lost_events.items():
            complain(
                f"{counted(lost, 'event')} of {reporter.server}, process {reporter.process}, not in topic "
                f"{AUDIT_TOPIC}: its counts may be too low"
            )


async def _check_topic(reactor: Any, brokers: str | Sequence[Address]) -> None:
    """Raise UnknownTopic if nothing was ever audited: a consumer would wait for the topic."""
    admin = Admin(brokers, reactor=reactor)
    try:
        await admin.describe(AUDIT_TOPIC)
    except UnknownTopic:
        raise UnknownTopic(
            f"there is no topic {AUDIT_TOPIC!r}: no audited client has published counts ('logd topics list')"
        ) from None
    finally:
        await admin.close()


async def _follow(
    reactor: Any, batches: AsyncIterator[MessageBatch], events: EventReader, question: Question, shown: list[Verdict]
) -> AsyncGenerator[list[Verdict], None]:
    """Read on, and yield the verdicts that were reached or changed since they were last shown."""
    known = {_name_of(verdict): verdict for verdict in shown}
    failures: list[BaseException] = []

    async def read() -> None:
        async for batch in batches:
            events.read(batch)

    reading: Deferred[Any] = Deferred.fromCoroutine(read())
    reading.addErrback(_keep_failure, failures)
    try:
        while not failures:
            await sleep(reactor, FOLLOW_SECONDS)
            changed = [
                verdict
                for verdict in question.verdicts(events.sums)
                if not verdict.pending and known.get(_name_of(verdict)) != verdict
            ]
            known |= {_name_of(verdict): verdict for verdict in changed}
            if changed:
                yield changed
        raise failures[0]
    finally:
        reading.cancel()


def _keep_failure(failure: Failure, failures: list[BaseException]) -> None:
    failures.append(failure.value or LogdError("reading has ended"))


def _name_of(verdict: Verdict) -> tuple[object, ...]:
    return verdict.topic, verdict.window, verdict.cluster, verdict.tier, verdict.group, verdict.source


def _print(verdicts: list[Verdict], as_json: bool) -> None:
    if as_json:
        for verdict in verdicts:
            click.echo(as_json_line(verdict))
    elif verdicts:
        show(COLUMNS, [as_row(verdict) for verdict in verdicts])


def _export(verdicts: list[Verdict], metrics: str | None, parquet: str | None) -> None:
    if metrics is not None:
        write_metrics(verdicts, metrics)
    if parquet is not None:
        write_verdicts(verdicts, parquet)
