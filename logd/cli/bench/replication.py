"""``logd bench replication``: the price of replicas, and how soon a partition goes on without its leader."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from rich.console import Console

from logd.bench.partitions.replication import ReplicationBench
from logd.cli.bench.shapes import WHOLE
from logd.cli.options import json_option
from logd.cli.reactor_command import run
from logd.cli.terminal.tables import show_fields


@click.command(short_help="Measure replicas: rates, failover, catching up.")
@click.option("--size", type=WHOLE, default=200, show_default=True, help="Bytes of one message's payload.")
@click.option("--seconds", type=WHOLE, default=4, show_default=True, help="Seconds of each measurement of a rate.")
@click.option("--rounds", type=WHOLE, default=3, show_default=True, help="Rounds; medians are the result.")
@click.option("--kills", type=WHOLE, default=5, show_default=True, help="Leaders that are killed.")
@click.option("--idle", type=click.IntRange(0), default=1000, show_default=True, help="Idle partitions.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    show_default=True,
    help="A folder on the disk to measure; the files made in it are removed.",
)
@json_option
def replication(size: int, seconds: int, rounds: int, kills: int, idle: int, folder: str, as_json: bool) -> None:
    """Measure three brokers on this machine.

    One producer sends to a topic with one replica and to one with three, with acks=1 and acks=-1. Then leaders are
    killed: the time runs to the next acknowledgement with acks=-1, of which the session of the killed broker takes
    most. Then a follower gets a new empty disk and copies everything. At last the brokers do nothing, with many
    partitions.
    """
    console = Console(stderr=True)

    async def work(reactor: Any) -> None:
        with console.status("") as status:
            tell = status.update if console.is_terminal else lambda _: None
            found = await ReplicationBench(reactor, folder, size, float(seconds), rounds, kills, idle, tell).run()
        if as_json:
            print(json.dumps(found.to_json()))
        else:
            show_fields(found.to_json())

    sys.exit(run(work))
