"""``logd bench audit``: the cost of the audit's counting to a producer."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from rich.console import Console

from logd.bench.audit import AuditBench, AuditCost
from logd.bench.rates.workload import CALLS
from logd.cli.bench.running import run_with_servers
from logd.cli.bench.shapes import WHOLE
from logd.cli.options import json_option
from logd.cli.terminal.tables import show


@click.command(short_help="Measure the cost of the audit to a producer.")
@click.option("--messages", type=WHOLE, default=200_000, show_default=True, help="Messages of each round.")
@click.option("--size", type=WHOLE, default=200, show_default=True, help="Bytes of one message's payload.")
@click.option("--call", "calls", type=click.Choice(CALLS), multiple=True, default=CALLS, show_default=True)
@click.option("--acks", type=click.Choice(["1", "-1"]), default="1", show_default=True)
@click.option("--rounds", type=WHOLE, default=5, show_default=True, help="Rounds; medians are the result.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    show_default=True,
    help="A folder on the disk to measure; the files made in it are removed.",
)
@json_option
def audit(messages: int, size: int, calls: tuple[str, ...], acks: str, rounds: int, folder: str, as_json: bool) -> None:
    """Measure a producer with and without the audit, in turn in each round.

    The messages have their time and server already, so the difference is the counting alone. On a machine that does
    other work the processor time of the producer's process is more reliable than its rate.
    """
    console = Console(stderr=True)

    async def work(reactor: Any) -> None:
        with console.status("") as status:
            tell = status.update if console.is_terminal else lambda _: None
            found = await AuditBench(reactor, folder, messages, size, int(acks), rounds, calls, tell).run()
        _print(found, as_json)

    sys.exit(run_with_servers(work))


def _print(found: list[AuditCost], as_json: bool) -> None:
    rows = [each.to_json() for each in found]
    if as_json:
        print(json.dumps({"bench": "audit", "calls": rows}))
    else:
        show(list(rows[0]), [list(row.values()) for row in rows])
