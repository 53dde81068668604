"""``logd produce``: sends every line of files or of standard input as a message."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any

import click
from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.python.failure import Failure

from logd.cli.messages.avro_lines import AvroLineReader, SchemaFile, registry_option
from logd.cli.messages.lines import LineBatch, read_lines, total_bytes
from logd.cli.messages.timestamps import Stamp, may_stamp, timestamps_option
from logd.cli.options import audit_options, broker_option, json_option, topic_argument
from logd.cli.reactor_command import run
from logd.cli.stopping import Stopping
from logd.cli.terminal.blocking_calls import BackgroundThread
from logd.cli.terminal.exits import complain
from logd.cli.terminal.progress import ProgressLine
from logd.client.admin.admin import Admin
from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.client.settings import LARGEST_REQUEST, LONGEST_DELIVERY
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import LogdError
from logd.plurals import counted
from logd.protocol.message import Message
from logd.protocol.requests.metadata import MetadataResponse

#: Seconds that an interrupted command waits for the broker to acknowledge the messages it has.
INTERRUPTED_SECONDS = 5.0

_EPILOG = """\b
Examples:
  logd produce clicks access.log access.log.1
  tail -F app.log | logd produce app --compression zstd
  echo '{"name": "ada"}' | logd produce users --avro user.avsc --registry http://127.0.0.1:8080
  printf 'user1\\tlogin\\nuser2\\tlogout\\n' | logd produce events --key-separator '\\t'
"""


def _nothing() -> None:
    """Do nothing: no read is under way."""


@define
class Tally:
    """The counts of lines sent, acknowledged, skipped and refused."""

    sent: int = 0
    bytes: int = 0
    acknowledged: int = 0
    #: Lines left out by this command, and by the broker.
    skipped: int = 0
    refused: int = 0
    #: Bytes of each line that are not in its message: the separator.
    between: int = 0
    failure: Exception | None = None
    #: Called at the first failure.
    on_failure: Callable[[], None] = _nothing
    #: Called with the number of newly acknowledged lines.
    progress: Callable[[int], None] = lambda _: None
    _open: int = 0
    _settled: WaitingDeferreds[None] = field(factory=WaitingDeferreds)

    def watch(self, sending: Deferred[Any], count: int) -> None:
        """Count the lines of one set when their Deferred fires; keep the first failure."""

        def ended(result: object) -> None:
            if not isinstance(result, Failure):
                stored = count
                if isinstance(result, Sent) and result.skipped:
                    stored -= result.skipped
                    self.refused += result.skipped
                    self.sent -= result.skipped
                    self.bytes -= result.skipped_bytes + self.between * result.skipped
                self.acknowledged += stored
                self.progress(stored)
            elif self.failure is None and isinstance(result.value, Exception):
                self.failure = result.value
                self.on_failure()
            self._open -= 1
            if not self._open:
                self._settled.fire(None)

        self.sent += count
        self._open += 1
        sending.addBoth(ended)

    def settled(self) -> Deferred[None]:
        """Return a Deferred that fires once every watched set has been counted."""
        return self._settled.new() if self._open else succeed(None)


class SendFailed(LogdError):
    """Some lines were not acknowledged."""


class NoKey(LogdError):
    """A line does not contain the separator that ends its key."""


def messages_of(batch: LineBatch, separator: bytes | None, stamp: Stamp) -> list[Message]:
    """Make messages of lines; with a separator, the text before its first occurrence is the key. Raises NoKey."""
    if separator is None:
        return stamp.messages(batch.lines)
    messages = []
    for index, line in enumerate(batch.lines):
        key, found, payload = line.partition(separator)
        if not found:
            raise NoKey(
                f"line {batch.first_line + index} of {batch.source} does not contain the separator {separator!r}"
            )
        messages.append(stamp.message(payload, key))
    return messages


@click.command(epilog=_EPILOG)
@topic_argument
@click.argument("files", nargs=-1, type=click.Path(allow_dash=True), metavar="[FILE]...")
@broker_option
@click.option(
    "--acks",
    type=click.IntRange(-1, 32767),
    default=-1,
    show_default=True,
    metavar="N",
    help="-1: on the disk of every in-sync replica; 1: received; N: received by N replicas; 0: no acknowledgement.",
)
@click.option(
    "--key-separator", metavar="TEXT", help="The text before this separator is the message's key (\\t: a tab)."
)
@click.option(
    "--partition", type=click.IntRange(0), metavar="N", help="Send to this partition; by default by key, or at random."
)
@click.option("--compression", type=click.Choice(["none", "gzip", "snappy", "zstd"]), default="none", show_default=True)
@click.option(
    "--message-bytes",
    type=click.IntRange(1, LARGEST_REQUEST),
    default=1_000_000,
    show_default=True,
    metavar="BYTES",
    help="The longest message; the broker has its own limit (message.bytes).",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, LONGEST_DELIVERY),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds after which an undelivered message has failed.",
)
@click.option(
    "--skip-too-long",
    is_flag=True,
    help="Leave out lines longer than --message-bytes or the broker's limit, and print how many.",
)
@timestamps_option
@audit_options
@click.option(
    "--avro",
    "schema",
    type=SchemaFile(),
    help="The lines are JSON: send them as Avro with the schema in FILE, registered under TOPIC-value.",
)
@registry_option
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Show no progress and no summary.")
@click.pass_context
def produce(ctx: click.Context, /, **options: Any) -> None:
    """Send every line of FILEs to TOPIC as a message. Standard input is read without a FILE, or for "-".

    A message is the line without its newline; every other byte is kept. The topic is created if it does not exist and
    the broker allows it. If a message cannot be delivered, the command ends with status 1 and prints how many were
    acknowledged.
    """
    stopping = Stopping(f"up to {INTERRUPTED_SECONDS:.0f} s for a broker to acknowledge the messages in flight")
    ctx.exit(run(lambda reactor: _produce(reactor, stopping, **options), stopping))


async def _produce(
    reactor: Any,
    stopping: Stopping,
    topic: str,
    files: tuple[str, ...],
    broker: str,
    acks: int,
    key_separator: str | None,
    partition: int | None,
    compression: str,
    message_bytes: int,
    timeout: float,
    skip_too_long: bool,
    timestamps: bool,
    audit: bool,
    server: str,
    audit_window: float,
    schema: str | None,
    registry: str,
    as_json: bool,
    quiet: bool,
) -> None:
    paths = files or ("-",)
    separator = os.fsencode(key_separator.replace("\\t", "\t")) if key_separator else None
    avro = None if schema is None else AvroLineReader(reactor, registry, topic, schema)
    described = await _reach(reactor, broker, topic)
    stamp = Stamp(time.time if timestamps and may_stamp(described) else None, message_bytes)
    producer = Producer(
        broker,
        reactor=reactor,
        acks=acks,
        compression=compression,
        delivery_timeout=timeout,
        message_bytes=message_bytes,
        on_too_large="skip" if skip_too_long else "fail",
        audit=audit,
        server=server,
        audit_window=audit_window,
    )
    tally = Tally(between=len(separator or b""))
    began = time.monotonic()
    error: BaseException | None = None

    def last_words() -> None:
        with suppress(CancelledError):
            _end(topic, tally, time.monotonic() - began, CancelledError(), as_json, quiet, acks)

    stopping.last_words = last_words
    try:
        with ProgressLine(f"to {topic}", total_bytes(paths), quiet or as_json) as progress:

            def acknowledged(count: int) -> None:
                progress.advance(count)
                if tally.acknowledged < tally.sent:
                    progress.describe(f"to {topic}, {tally.sent:,} read")

            tally.progress = acknowledged
            lines = read_lines(BackgroundThread(reactor), paths, message_bytes, skip_too_long)
            async with aclosing(lines) as batches:
                while (batch := await _next(batches, tally)) is not None:
                    tally.skipped += batch.skipped
                    if batch.lines:
                        await producer.ready()
                        messages = messages_of(batch, separator, stamp)
                        if avro is not None:
                            messages = await avro.encode(batch, messages)
                        tally.watch(producer.send(topic, messages, partition=partition), len(messages))
                        tally.bytes += sum(map(len, batch.lines))
                    progress.advance(0, batch.bytes_read)
            await tally.settled()
    except (LogdError, CancelledError) as problem:
        error = problem
    try:
        await producer.close(timeout=INTERRUPTED_SECONDS if isinstance(error, CancelledError) else timeout)
    except CancelledError as interruption:
        error = interruption
    if avro is not None:
        await avro.close()
    stopping.said()
    _end(topic, tally, time.monotonic() - began, error, as_json, quiet, acks)


async def _next(batches: AsyncGenerator[LineBatch, None], tally: Tally) -> LineBatch | None:
    """Return the next batch, or None at the end, or at once when a delivery fails: the next input may be hours away."""
    if tally.failure is not None:
        return None
    reading = Deferred.fromCoroutine(_read(batches))
    tally.on_failure = reading.cancel
    try:
        return await reading
    except CancelledError:
        if tally.failure is None:
            raise
        return None
    finally:
        tally.on_failure = _nothing


async def _read(batches: AsyncGenerator[LineBatch, None]) -> LineBatch | None:
    return await anext(batches, None)


async def _reach(reactor: Any, broker: str, topic: str) -> MetadataResponse:
    """Request the topic's metadata, so that an unreachable broker is known before the first line's timeout."""
    admin = Admin(broker, reactor=reactor)
    try:
        return await admin.metadata((topic,))
    finally:
        await admin.close()


def _end(
    topic: str, tally: Tally, seconds: float, error: BaseException | None, as_json: bool, quiet: bool, acks: int
) -> None:
    """Print the summary; raise the error that the command ends with."""
    if as_json:
        summary = {
            "topic": topic,
            "messages": tally.sent,
            "bytes": tally.bytes,
            "acknowledged": tally.acknowledged if acks else None,
            "skipped": tally.skipped + tally.refused,
            "seconds": round(seconds, 3),
            "error": str(error or tally.failure or "") or None,
        }
        click.echo(json.dumps(summary))
    problem = error if isinstance(error, CancelledError) else tally.failure or error
    if tally.skipped:
        complain(f"left out {counted(tally.skipped, 'line')} longer than --message-bytes")
    if tally.refused:
        complain(f"left out {counted(tally.refused, 'line')} longer than the broker's or topic's message.bytes")
    outcome = f"{tally.acknowledged} of {tally.sent} messages were {'acknowledged' if acks else 'sent'}"
    if isinstance(problem, CancelledError):
        click.echo(f"logd: interrupted; {outcome}", err=True)
        raise problem
    if problem is not None:
        raise SendFailed(f"{outcome}, then: {problem}") from problem
    if not as_json and not quiet:
        click.echo(f"{counted(tally.sent, 'message')}, {counted(tally.bytes, 'byte')} in {seconds:.2f} s", err=True)
