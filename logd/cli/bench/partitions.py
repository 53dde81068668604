"""``logd bench partitions`` and ``logd bench replication``: many partitions beside few, and the price of replicas."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from logd.bench.partitions.replication import ReplicationBench
from logd.bench.partitions.run import PartitionsBench, PartitionsResult
from logd.cli.bench.running import run_with_servers
from logd.cli.bench.shapes import WHOLE
from logd.cli.options import json_option
from logd.cli.terminal.tables import show_fields

_COUNTS = (50, 500, 2_000)


@click.command(short_help="Measure many partitions beside few.")
@click.option(
    "--partitions",
    type=WHOLE,
    multiple=True,
    help="A number of partitions. May be repeated; ratios are to the first.  [default: 50 500 2000]",
)
@click.option("--messages", type=WHOLE, default=60_000, show_default=True)
@click.option("--size", type=WHOLE, default=200, show_default=True, help="Bytes of one message's payload.")
@click.option("--acks", type=click.Choice(["1", "-1"]), default="-1", show_default=True)
@click.option("--rounds", type=WHOLE, default=3, show_default=True, help="Rounds; the medians are the result.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the broker that is started.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    show_default=True,
    help="A folder on the disk to measure; the files made in it are removed.",
)
@json_option
def partitions(
    partitions: tuple[int, ...],
    messages: int,
    size: int,
    acks: str,
    rounds: int,
    settings: tuple[str, ...],
    folder: str,
    as_json: bool,
) -> None:
    """Measure the same messages over few and over many partitions.

    In each round a new topic of each number of partitions takes all messages, one send each, with keys that spread
    them, and one stream then reads them back. A ratio compares a rate with that over the first number of partitions in
    the same round: 1 is as fast, 0.5 half as fast.
    """
    console = Console(stderr=True)

    async def work(reactor: Any) -> None:
        with console.status("") as status:
            tell = status.update if console.is_terminal else lambda _: None
            bench = PartitionsBench(folder, partitions or _COUNTS, messages, size, int(acks), rounds, settings, tell)
            results = await bench.run(reactor)
        if as_json:
            print(json.dumps([result.to_json() for result in results]))
        else:
            _show(results)

    sys.exit(run_with_servers(work))


def _show(results: list[PartitionsResult]) -> None:
    one = results[0]
    table = Table(
        "partitions",
        "produce s",
        "client s",
        "broker s",
        "ratio",
        "consume s",
        "client s",
        "broker s",
        "ratio",
        title=f"{one.messages:,} messages of {one.size} bytes, acks {one.acks}, medians of {one.rounds}",
        caption="client s, broker s: processor seconds; ratio: the rate beside that of the first line",
    )
    for each in results:
        row = [f"{each.partitions:,}"]
        for cost, ratio in ((each.produce, each.produce_ratio), (each.consume, each.consume_ratio)):
            row += [f"{cost.seconds:.2f}", f"{cost.client_seconds:.2f}", f"{cost.broker_seconds:.2f}", f"{ratio:.2f}"]
        table.add_row(*row)
    Console().print(table)


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

    sys.exit(run_with_servers(work))
