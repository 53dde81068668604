"""``logd repair``: replaces damaged entries by gaps, in files or through a running broker."""

from __future__ import annotations

from typing import Any

import click

from logd.cli.files.offline_repair import repair_files
from logd.cli.files.online_repair import repair_by_broker
from logd.cli.options import BrokersParameter, json_option
from logd.cli.reactor_command import run
from logd.errors import InvalidTopic
from logd.topic import check_topic_name

_EPILOG = """\b
Examples:
  logd repair /var/lib/logd --dry-run
  logd repair /var/lib/logd/clicks-0 --yes
  logd repair --broker 127.0.0.1:6667 clicks
  logd repair --broker 127.0.0.1:6667 clicks 0 3 --yes
  logd repair --broker 127.0.0.1:6667 clicks 0 --accept-loss
"""


@click.command(epilog=_EPILOG)
@click.argument("where", nargs=-1, required=True, metavar="PATH | TOPIC [PARTITION]...")
@click.option("--broker", type=BrokersParameter(), help="Have this broker repair the topic while it serves.")
@click.option("--yes", "-y", is_flag=True, help="Make the gaps without asking.")
@click.option("--force", is_flag=True, help="Also cut, without asking, bytes without a known entry boundary.")
@click.option(
    "--accept-loss",
    is_flag=True,
    help="With --broker: give up the messages of a lost log without asking, and begin the log again.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
@click.pass_context
def repair(ctx: click.Context, /, where: tuple[str, ...], broker: str | None, **options: Any) -> None:
    """Replace damaged entries by gaps, so that consumers skip them and all other messages keep their ids.

    PATH is a data directory, a partition's folder or a segment file; its broker must be stopped. With --broker, give
    TOPIC and optionally PARTITIONs (by default all); the broker goes on serving.

    A partition that several brokers store is not repaired in files. Its brokers heal it with one another's bytes; with
    --broker, give the address of the leader: it heals at once, and makes a gap only where no replica has the bytes.

    The command first inspects everything, then shows what would be lost and asks. Without a terminal it changes
    nothing unless --yes is given. If a length is damaged in the last segment, and neither an index nor a checkpoint
    knows an entry boundary after it, only a cut helps. The cut is asked for separately; --force answers that question,
    and --yes does not.

    A lost log (no folder, another data directory, or files older than the coordination tree's record of them) is begun
    again after every id that was ever given, if you agree or give --accept-loss. Its messages are given up. Its broker
    has to be running, since only the tree knows those ids. A partition that several brokers store begins again only if
    all of them have lost its log; logd elect --unclean then lets the broker lead.

    The exit status is 0 when everything is sound at the end, 1 when something is left (with --dry-run: when something
    would be done).
    """
    if broker is None:
        if len(where) != 1:
            raise click.UsageError("give one PATH, or --broker with TOPIC [PARTITION]...")
        if options.pop("accept_loss"):
            raise click.UsageError(
                "--accept-loss needs --broker HOST:PORT TOPIC [PARTITION]...: start the broker, which serves the other "
                "partitions; only the coordination tree knows which ids were given"
            )
        ctx.exit(repair_files(where[0], **options))
    try:
        topic, partitions = check_topic_name(where[0]), [int(number) for number in where[1:]]
    except (InvalidTopic, ValueError) as error:
        raise click.UsageError(f"{error}") from None
    ctx.exit(run(lambda reactor: repair_by_broker(reactor, broker, topic, partitions, **options)))
