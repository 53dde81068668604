"""``logd collect``: follows files as they grow and are rotated, and sends every line once it is complete."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatch
from typing import Any

import click
from attrs import define
from twisted.internet.defer import CancelledError

from logd.cli.messages.timestamps import may_stamp, timestamps_option
from logd.cli.messages.unmatched import Unmatched
from logd.cli.options import TopicParameter, audit_options, broker_option, json_option
from logd.cli.reactor_command import run
from logd.cli.stopping import Stopping
from logd.cli.terminal.blocking_calls import BackgroundThread
from logd.cli.terminal.exits import FAILED, OK, SIGNALLED, complain
from logd.cli.terminal.progress import ProgressLine
from logd.client.producer.producer import Producer
from logd.client.settings import LONGEST_DELIVERY
from logd.collect.collector import Collector, MessageShape
from logd.collect.cutting import Rules
from logd.collect.disk import Disk
from logd.collect.follower import Follower, FollowSettings
from logd.collect.state_file import StateFile, default_path, own_files
from logd.errors import BrokerUnavailable, DeliveryFailed, LogdError, WrongPartition
from logd.log.disk.local_files import LocalFiles
from logd.plurals import counted

#: Seconds that an interrupted command waits for the broker to acknowledge the lines it has read.
INTERRUPTED_SECONDS = 5.0
#: Room for a key and headers beside a line: a path and a host's name.
BESIDE_BYTES = 10_000
#: Bytes in flight to the broker: more is not faster, and all of them are read again after a crash.
BUFFER_BYTES = 8 << 20
#: Descriptors for all but the followed files: connections, listings of folders, the state.
OTHER_DESCRIPTORS = 64

_EPILOG = """\b
Examples:
  logd collect '/var/log/nginx/*.log' --topic web --state /var/lib/logd/web.json
  logd collect app.log --topic app --with-source --compression zstd
  logd collect '/data/export/**/*.csv' --topic export --once --json
"""


class KeyParameter(click.ParamType[str]):
    """The kind of message key: none, the file's name, or a text."""

    name = "none|file|=TEXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse any other value."""
        if value in ("none", "file") or (value.startswith("=") and len(value) > 1):
            return str(value)
        self.fail(f"{value!r} is not allowed; allowed is none, file, or = and a text", param, ctx)


@click.command(epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--topic", type=TopicParameter(), required=True, help="The topic that the lines are sent to.")
@broker_option
@click.option(
    "--state",
    type=click.Path(dir_okay=False),
    help="The file that stores how far each file has been sent. By default a file in ~/.local/state/logd, named after "
    "topic, broker and FILEs: give one if any of these may change.",
)
@click.option(
    "--from",
    "start",
    type=click.Choice(["start", "end"]),
    default="start",
    show_default=True,
    help="Where to begin in existing files when there is no state yet. Later files are read from their start.",
)
@click.option("--once", is_flag=True, help="Send what the files contain now, and end.")
@click.option(
    "--exclude", multiple=True, metavar="PATTERN", help="Skip files whose name or path matches; may be repeated."
)
@click.option(
    "--key",
    type=KeyParameter(),
    default="none",
    show_default=True,
    help="Message key: none, the FILE's name, or a text.",
)
@click.option(
    "--partition",
    type=click.IntRange(0),
    metavar="N",
    help="Send all lines to this partition; by default each file has one of all.",
)
@click.option("--spread", is_flag=True, help="Spread a file's lines over all partitions: faster, but not in order.")
@click.option("--with-source", is_flag=True, help="Add the headers host and file to each message.")
@click.option(
    "--max-line",
    type=click.IntRange(1, 15_000_000),
    default=990_000,
    show_default=True,
    metavar="BYTES",
    help="Longest line, without its newline.",
)
@click.option(
    "--long-lines",
    type=click.Choice(["split", "skip", "fail"]),
    default="split",
    show_default=True,
    help="Longer lines: split them into several messages, skip them, or end with status 1.",
)
@click.option(
    "--flush-partial",
    type=click.FloatRange(0.0),
    metavar="SECONDS",
    help="Send an unfinished last line after its file has not changed for this long; by default wait for its newline.",
)
@click.option(
    "--poll",
    type=click.FloatRange(0.01),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between checks of the files.",
)
@click.option(
    "--max-open",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    metavar="N",
    help="The most files open at a time.",
)
@click.option("--compression", type=click.Choice(["none", "gzip", "snappy", "zstd"]), default="none", show_default=True)
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, LONGEST_DELIVERY),
    metavar="SECONDS",
    help="How long to wait for an unavailable broker before ending with status 3; by default a week.",
)
@timestamps_option
@audit_options
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Show no progress and no summary, only notices.")
@click.pass_context
def collect(ctx: click.Context, /, **options: Any) -> None:
    """Send every line of FILEs to a topic, and follow the files as they grow, are rotated, truncated and recreated.

    FILE may be a pattern (* ? [] and ** for folders of any depth); quote it, so that files which appear later are
    found too. Compressed files (.gz and the like) are skipped. A line is sent when it is complete, and recorded as
    sent when the broker has it on disk: it arrives at least once, and twice only after a crash. Files that were
    rotated while no collector ran are read first. SIGTERM ends the command with status 0, or 1 when lines were lost;
    --once also ends with 1 when a FILE matches nothing.
    """
    outcome = CollectOutcome()
    stopping = Stopping(f"up to {INTERRUPTED_SECONDS:.0f} s for a broker to acknowledge the lines in flight")
    status = run(lambda reactor: _collect(reactor, outcome, stopping, **options), stopping)
    if status == SIGNALLED + signal.SIGTERM:
        status = FAILED if outcome.losses or outcome.unsaved else OK
    ctx.exit(status)


async def _collect(
    reactor: Any,
    outcome: CollectOutcome,
    stopping: Stopping,
    files: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    topic, broker, once = options["topic"], options["broker"], options["once"]
    patterns = [os.path.abspath(each) for each in files]
    path = os.path.abspath(options["state"] or default_path(topic, broker, patterns, os.environ))
    thread = BackgroundThread(reactor)
    state = StateFile(LocalFiles(), path, topic)
    restored = await thread.run(state.open)
    excluded = excluder(options["exclude"], path)
    settings = FollowSettings(
        patterns=patterns,
        rules=Rules(options["max_line"], options["long_lines"]),
        excluded=excluded,
        unmatched=Unmatched(patterns, excluded).notices,
        poll=options["poll"],
        open_files=may_open(options["max_open"]),
        flush_partial=options["flush_partial"],
        from_end=options["start"] == "end" and restored is None,
        once=once,
    )
    follower = Follower(Disk(), time.monotonic, settings, restored)
    producer = Producer(
        broker,
        reactor=reactor,
        acks=-1,
        compression=options["compression"],
        delivery_timeout=options["timeout"] or LONGEST_DELIVERY,
        message_bytes=options["max_line"] + BESIDE_BYTES,
        buffer_bytes=BUFFER_BYTES,
        audit=options["audit"],
        server=options["server"],
        audit_window=options["audit_window"],
    )
    began = time.monotonic()
    problem: Exception | None = None
    with ProgressLine(f"to {topic}", None, quiet or as_json) as progress:
        shown = 0

        def show() -> None:
            nonlocal shown
            sources, lines = follower.tracker.sources, collector.ledger.acknowledged_lines
            progress.describe(f"{counted(len(sources), 'file')} to {topic}, {counted(follower.behind, 'byte')} behind")
            progress.advance(lines - shown)
            shown = lines

        collector = Collector(
            reactor, thread.run, follower, producer, state, _shape(options), once=once, report=complain, progress=show
        )
        stopping.last_words = lambda: _end_interrupted(topic, collector, time.monotonic() - began, as_json, quiet)
        try:
            await collector.run()
        except (Exception, CancelledError) as error:
            problem = error
        await collector.close(INTERRUPTED_SECONDS)
    outcome.losses, outcome.unsaved = follower.tracker.losses, collector.unsaved
    stopping.said()
    _end(topic, collector, time.monotonic() - began, problem, as_json, quiet)
    if once:
        check_collected(follower, collector.unsaved)


def may_open(wanted: int) -> int:
    """Return how many files may be open at a time: fewer than wanted, with a notice, if the process may not have more.

    The soft limit of the process is raised as far as that takes and the hard one allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_DESCRIPTORS
    if resource.RLIM_INFINITY != soft < needed and soft != hard:
        with suppress(OSError, ValueError):  # some systems allow less than they say
            higher = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (higher, hard))
            soft = higher
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    most = max(1, soft - OTHER_DESCRIPTORS)
    complain(f"at most {most} files are open at a time, as this process may have {soft} descriptors (ulimit -Hn)")
    return most


@define
class CollectOutcome:
    """The result of a run that decides the exit status after SIGTERM."""

    losses: int = 0
    #: True if the state could not be saved at the end.
    unsaved: bool = False


class NotAllCollected(LogdError):
    """Something was not collected; notices have said what."""


def check_collected(follower: Follower, unsaved: bool) -> None:
    """Raise NotAllCollected unless every line of every FILE was read, and that was saved.

    An unfinished last line waits for its end, in a later run, and is told.
    """
    tracker = follower.tracker
    for source in tracker.sources.values():
        if source.unread and not source.trouble:
            complain(
                f"{source.path} ends without a newline: its last line, {counted(source.unread, 'byte')}, is left for "
                "the next run (--flush-partial 0 sends it)"
            )
    failures = ["the state could not be saved"] if unsaved else []
    if tracker.losses:
        failures.append(
            f"lines are lost ({counted(tracker.losses, 'notice')}, at least {counted(tracker.lost, 'byte')})"
        )
    if follower.unmatched:
        failures.append("a FILE matches nothing that can be read")
    elif any(source.trouble for source in tracker.sources.values()):
        failures.append("a file could not be read")
    if failures:
        raise NotAllCollected(f"not everything was collected: {' and '.join(failures)}; see the notices above")


def excluder(patterns: tuple[str, ...], state: str) -> Callable[[str], bool]:
    """Return a predicate of the paths to skip: those of the patterns, and the state file, which reading would grow."""
    own = own_files(state)

    def excluded(path: str) -> bool:
        name = os.path.basename(path)
        return path in own or any(fnmatch(name, each) or fnmatch(path, each) for each in patterns)

    return excluded


def _shape(options: dict[str, Any]) -> MessageShape:
    """Return the shape of messages that the options ask for."""
    key: str = options["key"]
    host = socket.gethostname().encode()
    more: dict[str, Any] = {}
    if key == "file":
        more["key"] = os.fsencode
    elif key != "none":
        text = key[1:].encode(errors="surrogateescape")
        more["key"] = lambda _: text
    if options["timestamps"] and may_stamp(None):
        more["clock"] = lambda: time.time_ns() // 1_000_000
    if options["with_source"]:
        more["headers"] = lambda name: (("host", host), ("file", os.fsencode(name)))
    return MessageShape(topic=options["topic"], partition=options["partition"], spread=options["spread"], **more)


def _end(
    topic: str, collector: Collector, seconds: float, problem: Exception | None, as_json: bool, quiet: bool
) -> None:
    """Print the summary; raise the error that the command ends with."""
    if isinstance(problem, CancelledError):
        _end_interrupted(topic, collector, seconds, as_json, quiet)
        raise CancelledError
    ledger = collector.ledger
    if as_json:
        _print_summary(topic, collector, seconds, problem)
    if problem is not None:
        if isinstance(problem, DeliveryFailed) and isinstance(problem.__cause__, WrongPartition | None):
            # The brokers that answered store nothing of the topic.
            problem.__cause__ = BrokerUnavailable(str(problem))
        if not isinstance(problem, LogdError):
            raise problem
        raise LogdError(f"{_outcome(collector)}, then: {problem}") from problem
    if not as_json and not quiet:
        complain(f"{counted(ledger.lines, 'line')}, {counted(ledger.bytes, 'byte')} in {seconds:.2f} s")


def _end_interrupted(topic: str, collector: Collector, seconds: float, as_json: bool, quiet: bool) -> None:
    """Print the summary of a run that a signal ends."""
    if as_json:
        _print_summary(topic, collector, seconds, None)
    elif not quiet:
        complain(f"ended; {_outcome(collector)}")


def _outcome(collector: Collector) -> str:
    return f"{collector.ledger.acknowledged_lines} of {collector.ledger.lines} lines were acknowledged"


def _print_summary(topic: str, collector: Collector, seconds: float, problem: Exception | None) -> None:
    ledger, follower = collector.ledger, collector.follower
    summary = {
        "topic": topic,
        "files": len(follower.tracker.sources),
        "lines": ledger.lines,
        "bytes": ledger.bytes,
        "acknowledged": ledger.acknowledged_lines,
        "behind_bytes": follower.behind,
        "lost_bytes": follower.tracker.lost,
        "losses": follower.tracker.losses,
        "skipped_bytes": follower.skipped,
        "seconds": round(seconds, 3),
        "error": None if problem is None else str(problem),
    }
    click.echo(json.dumps(summary))
