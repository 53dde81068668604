"""``logd repair``: makes gaps in the place of damaged entries, in files or through a running broker."""

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
@click.option("--broker", type=BrokersParameter(), help="Have this broker do it while it serves.")
@click.option("--yes", "-y", is_flag=True, help="Make the gaps without asking.")
@click.option("--force", is_flag=True, help="Also cut, without asking, what nothing vouches for.")
@click.option(
    "--accept-loss",
    is_flag=True,
    help="With --broker: give up, without asking, the messages of a log that is lost, and begin it again.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing; say what would be done.")
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
@click.pass_context
def repair(ctx: click.Context, /, where: tuple[str, ...], broker: str | None, **options: Any) -> None:
    """Make gaps in the place of damaged entries, so that consumers skip them and every other id stays.

    PATH is a data directory, a partition's folder or a segment's file; its broker must be stopped. With --broker it is
    TOPIC and perhaps PARTITIONs, by default all, and the broker goes on serving.

    First everything is looked at, then what would be lost is shown, and a person at a terminal is asked; elsewhere
    nothing is done without --yes. Where a length is damaged in the last segment and neither an index nor a checkpoint
    vouches for any place behind it, only a cut helps: that is a question of its own, which --yes does not answer but
    --force does.

    A log that is lost (no folder, another data directory, or files older than what the coordination tree knows of) is
    begun again, behind every id that was ever given, when --accept-loss says so or a person does; its messages are
    given up. Its broker has to run, since only the tree knows those ids.

    The status is 0 when all is sound at the end, 1 when something is left (with --dry-run: when something would be
    done).
    """
    if broker is None:
        if len(where) != 1:
            raise click.UsageError("one PATH is wanted; TOPIC and PARTITION go with --broker")
        if options.pop("accept_loss"):
            raise click.UsageError(
                "--accept-loss wants --broker HOST:PORT TOPIC [PARTITION]...: start the broker, which serves the rest; "
                "only the coordination tree knows which ids were given"
            )
        ctx.exit(repair_files(where[0], **options))
    try:
        topic, partitions = check_topic_name(where[0]), [int(number) for number in where[1:]]
    except (InvalidTopic, ValueError) as error:
        raise click.UsageError(f"{error}") from None
    ctx.exit(run(lambda reactor: repair_by_broker(reactor, broker, topic, partitions, **options)))
