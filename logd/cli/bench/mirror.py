"""``logd bench mirror``: a mirror beside raw consuming, and the time through produce, mirror and consume."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from rich.console import Console

from logd.bench.mirror import MirrorBench, MirrorRates
from logd.bench.rates.workload import Workload
from logd.cli.bench.running import run_with_servers
from logd.cli.bench.shapes import WHOLE
from logd.cli.options import json_option
from logd.cli.terminal.tables import show_fields


@click.command(short_help="Measure a mirror beside raw consuming.")
@click.option("--messages", type=WHOLE, default=2_000_000, show_default=True, help="Messages to mirror.")
@click.option("--size", type=WHOLE, default=200, show_default=True, help="Bytes of one message's payload.")
@click.option("--partitions", type=WHOLE, default=1, show_default=True)
@click.option("--latency-messages", type=WHOLE, default=1_000, show_default=True, help="Messages sent one by one.")
@click.option("--rounds", type=WHOLE, default=3, show_default=True, help="Rounds; medians are the result.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    show_default=True,
    help="A folder on the disk to measure; the files made in it are removed.",
)
@json_option
def mirror(
    messages: int, size: int, partitions: int, latency_messages: int, rounds: int, folder: str, as_json: bool
) -> None:
    """Measure a mirror between two clusters of one broker each.

    Its rate is measured from the last moment at which the target had nothing until all is flushed there, between two
    readings of the same topic as raw bytes by a consumer; the ratio compares them. While a mirror runs, three processes
    share the processors, and two while a consumer reads: so the processor time for each megabyte is shown as well, and
    the ratio that it allows here. Then messages are sent one by one:
    the time runs from send at the source to a consumer at the target, through both brokers' disks.
    """
    console = Console(stderr=True)

    async def work(reactor: Any) -> None:
        with console.status("") as status:
            tell = status.update if console.is_terminal else lambda _: None
            workload = Workload(messages, size, acks=-1, partitions=partitions)
            found = await MirrorBench(reactor, folder, workload, rounds, latency_messages, tell).run()
        _print(found, as_json)

    sys.exit(run_with_servers(work))


def _print(found: MirrorRates, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        show_fields(found.to_json())
