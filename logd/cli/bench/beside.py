"""``logd bench beside``: measures the cost of a disturbance to an unrelated producer and consumer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from logd.bench.beside import COUNTS, Beside, Comparison
from logd.bench.memory import Memory, MemoryRun
from logd.cli.bench.running import run_with_servers
from logd.cli.options import json_option

_WHOLE = click.IntRange(min=1)


@click.command(short_help="Measure the cost of a disturbance to others.")
@click.argument("what", type=click.Choice([*COUNTS, "memory"]))
@click.option(
    "--count", type=_WHOLE, help=f"Size of the disturbance.  [default: {COUNTS['idle']:,} connections, and so on]"
)
@click.option("--rounds", type=_WHOLE, default=3, show_default=True, help="Rounds; each figure is the median.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=5.0, show_default=True, help="Length of each measurement."
)
@click.option("--one-by-one", type=_WHOLE, default=200, show_default=True, help="Messages sent for the latency.")
@click.option("--old-mb", type=_WHOLE, default=1000, show_default=True, help="Size of the old log (cold, stuck).")
@click.option(
    "--gb", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True, help="Data to send (memory)."
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    show_default=True,
    help="A folder on the disk to measure; the files made in it are removed.",
)
@json_option
def beside(what: str, count: int | None, folder: str, gb: float, as_json: bool, **options: Any) -> None:
    """Measure an ordinary producer and consumer alone and beside WHAT, in turn, with one broker.

    \b
    cold       a consumer reads an old log whose pages are not in the cache
    disk       the same reads without the broker: the cost of the disk
    stuck      consumers ask for much and never read
    idle       connections that say nothing
    half       connections that have sent part of a request, and a byte now and then
    storm      connections come and go, --count of them a second
    slow-disk  every fdatasync takes a second
    segments   10,000 old segments in the partition, against a broker with none
    memory     the broker's memory while --gb of data pass through it
    """
    console = Console(stderr=True)
    (old_megabytes,) = [options.pop("old_mb")]

    async def work(reactor: Any) -> None:
        with console.status("") as status:
            tell: Callable[[str], None] = status.update if console.is_terminal else lambda _: None
            result: Beside | Memory
            if what == "memory":
                result = await MemoryRun(folder, int(gb * 1e9), tell).run(reactor)
            else:
                number = count or COUNTS[what]
                old_bytes = old_megabytes * 1_000_000
                result = await Comparison(folder, what, number, old_bytes=old_bytes, tell=tell, **options).run(reactor)
        if as_json:
            print(json.dumps(result.to_json()))
        else:
            _show(result)

    sys.exit(run_with_servers(work))


def _show(result: Beside | Memory) -> None:
    if isinstance(result, Memory):
        table = Table(show_header=False)
        for name, value in result.to_json().items():
            table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, float) else str(value))
    else:
        table = Table("", "alone", "beside", "ratio", title=f"{result.what} ({result.count:,})")
        for name, ratio in result.ratios.items():
            one, other = getattr(result.alone, name), getattr(result.beside, name)
            table.add_row(name.replace("_", " "), f"{one:,}", f"{other:,}", f"{ratio:.2f}")
    Console().print(table)
    if isinstance(result, Beside) and result.done:
        print(", ".join(result.done))
