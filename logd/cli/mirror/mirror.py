"""``logd mirror``: mirrors topics in the foreground; its subcommands show lags and translate positions."""

from __future__ import annotations

import json
import time
from typing import Any

import click
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall

from logd.cli.mirror.options import cluster_options
from logd.cli.mirror.status import status
from logd.cli.mirror.translate import translate
from logd.cli.options import GroupParameter, audit_options, decompression_options
from logd.cli.reactor_command import run
from logd.cli.terminal.exits import complain
from logd.cli.terminal.log_lines import print_log
from logd.errors import ConfigurationError
from logd.mirror.running import MirrorPlan, RunningMirror
from logd.mirror.tap import plan_of

_EPILOG = """\b
Examples:
  logd mirror --from live:2181 --to offline:2181 --topics '.*'
  logd mirror status --from live:2181 --to offline:2181
  logd mirror translate billing --from live:2181 --to offline:2181
  logd mirror --from live:2181 --to offline:6667 --topics 'web\\..*' --rename '(.*)=east.\\1'
  logd mirror --from live:2181 --to offline:2181 --topics '.*' --schemas http://live:8081,http://offline:8081
\b
As a service, in the background, with /health and /metrics:
  twistd logd-mirror --from live:2181 --to offline:2181 --topics '.*' --http tcp:8081:interface=127.0.0.1
"""

#: The options that are settings of a mirror under the same name.
_SETTINGS = ("audit", "audit_window", "server", "max_decompressed", "max_decompressed_messages")


@click.group(invoke_without_command=True, epilog=_EPILOG)
@cluster_options(required=False)
@click.option("--topics", metavar="PATTERN", help="A regular expression that matches the whole names of topics.")
@click.option("--group", type=GroupParameter(), default="mirror", show_default=True, help="The mirrors' group.")
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="PATTERN=NAME",
    help="Call matching topics NAME on the target, in which \\1 stands for a group; may be repeated.",
)
@audit_options
@click.option(
    "--schemas",
    metavar="FROM_URL,TO_URL",
    help="Copy the schemas that messages name, with their ids, from one schema registry to another, each before the "
    "first message that names it. Without this option one registry has to serve both clusters.",
)
@decompression_options
@click.option(
    "--every",
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="Print a line of JSON with rates and lags each time these seconds have passed.",
)
@click.pass_context
def mirror(ctx: click.Context, /, **options: Any) -> None:
    """Copy the messages of topics from one cluster to another, until interrupted.

    Partitions, order, keys, times and headers are kept. Topics that do not exist are made on the target, with the
    source's settings. Several mirrors of one group share the work. Positions on the source are committed once the
    target has stored the messages, so none is lost; after a crash some are stored twice.
    """
    if ctx.invoked_subcommand is not None:
        return
    missing = [
        name for name, value in (("--from", "source"), ("--to", "target"), ("--topics", "topics")) if not options[value]
    ]
    if missing:
        raise click.UsageError(f"{', '.join(missing)} is missing")
    try:
        plan = plan_of(
            options["source"], options["target"], options["topics"], options["group"], options["renames"],
            options["source_zookeeper"], options["schemas"],
            **{name: options[name] for name in _SETTINGS},
        )  # fmt: skip
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    ctx.exit(run(lambda reactor: _mirror(reactor, plan, options["every"])))


mirror.add_command(status)
mirror.add_command(translate)


async def _mirror(reactor: Any, plan: MirrorPlan, every: float | None) -> None:
    print_log(complain)
    running = RunningMirror(plan)
    report = LoopingCall(_Report(running).show)
    report.clock = reactor
    if every is not None:
        report.start(every, now=False)
    try:
        await Deferred.fromCoroutine(running.run(reactor))
    except CancelledError:
        complain("the mirror has stopped; what it has read is stored and committed, or will be read again")
        raise
    finally:
        if report.running:
            report.stop()


class _Report:
    """Prints what was mirrored since the last line."""

    def __init__(self, running: RunningMirror) -> None:
        self._running = running
        self._last = (time.monotonic(), 0, 0)

    def show(self) -> None:
        """Print one line."""
        found = self._running.mirror
        if found is None:
            return
        now = time.monotonic()
        messages = sum(each.messages for each in found.progress.values())
        size = sum(each.bytes for each in found.progress.values())
        since, messages_before, bytes_before = self._last
        self._last = now, messages, size
        line = {
            "messages": messages,
            "bytes": size,
            "messages_per_second": round((messages - messages_before) / (now - since), 1),
            "bytes_per_second": round((size - bytes_before) / (now - since), 1),
            **self._running.health(),
        }
        click.echo(json.dumps(line))
