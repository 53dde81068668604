"""``logd bench coordination``: the embedded coordination server beside a real ZooKeeper."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from logd.bench.coordination import Compared, CoordinationRun, Figures
from logd.cli.bench.running import run_with_servers
from logd.cli.options import json_option


@click.command(short_help="Measure the coordination server beside a real ZooKeeper.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Rounds; each figure is the median."
)
@click.option("--seconds", type=click.FloatRange(0.1), default=3.0, show_default=True, help="Length of each load.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    show_default=True,
    help="A folder on the disk to measure; the files made in it are removed.",
)
@json_option
def coordination(rounds: int, seconds: float, folder: str, as_json: bool) -> None:
    """Measure reads and durable writes of ``logd zookeeper`` and of a real ZooKeeper, in turn.

    The loads are one client and ten clients, each with 32 requests in flight, on nodes of 100 bytes, from plain
    sockets in a process of its own. Also shown are the server's processor time per request in microseconds, its
    start-up time and its resident memory. The rows of "own client" are ten of logd's clients in one process, which
    limit both sides alike. The real ZooKeeper is run from the jars of pyspark (pip install pyspark) and needs
    Java; without it only the figures of logd are shown.
    """
    console = Console(stderr=True)

    async def work(reactor: Any) -> None:
        with console.status("") as status:
            tell: Callable[[str], None] = status.update if console.is_terminal else lambda _: None
            result = await CoordinationRun(folder, rounds, seconds, tell).run(reactor)
        if as_json:
            print(json.dumps(result.to_json()))
        else:
            _show(result)

    sys.exit(run_with_servers(work))


def _show(result: Compared) -> None:
    table = Table()
    table.add_column("")
    for heading in ("logd zookeeper", "ZooKeeper", "ratio"):
        table.add_column(heading, justify="right")
    ratios = result.ratios
    real = _rows(result.real) if result.real is not None else {}
    for name, value in _rows(result.embedded).items():
        ratio = f"{ratios[name]:.2f}" if name in ratios else "-"
        table.add_row(name.replace("_", " "), f"{value:,g}", f"{real[name]:,g}" if real else "-", ratio)
    Console().print(table)
    if result.missing:
        Console(stderr=True).print(result.missing, markup=False)


def _rows(figures: Figures) -> dict[str, float]:
    rates = {name: float(round(rate)) for name, rate in figures.rates.items()}
    return {
        **rates,
        **{f"processor_{name}": spent for name, spent in figures.processor.items()},
        "start_seconds": figures.start_seconds,
        "resident_megabytes": figures.resident_megabytes,
    }
