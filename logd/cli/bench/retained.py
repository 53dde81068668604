"""``logd bench retained``: the rates of produce and consume against the data that a log retains."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from logd.bench.rates.retained import Retained
from logd.bench.rates.workload import Workload
from logd.cli.bench.running import run_bench
from logd.cli.bench.shapes import WHOLE, place_options
from logd.cli.terminal.tables import show

_COLUMNS = (
    "retained_megabytes",
    "segments",
    "produced_per_second",
    "produced_ratio",
    "consumed_megabytes_per_second",
    "consumed_ratio",
)


@click.command(short_help="Measure rates against the data that a log retains.")
@click.option("--mb", type=WHOLE, multiple=True, default=(10, 100, 1000), show_default=True, help="Data of one log.")
@click.option(
    "--segment-mb", type=WHOLE, help="Size of a segment of the broker that the bench starts.  [default: the broker's]"
)
@click.option("--messages", type=WHOLE, default=500_000, show_default=True, help="Messages produced in each round.")
@click.option("--size", type=WHOLE, default=200, show_default=True, help="Bytes of one message's payload.")
@place_options
def retained(mb: tuple[int, ...], segment_mb: int | None, messages: int, size: int, **place: Any) -> None:
    """Measure produce and consume with logs of different sizes, in turn in every round.

    The broker has no index to grow with the log, so the rates should be the same (paper section 5): each ratio is the
    rate divided by that of the smallest log in the same round.
    """
    workload = Workload(messages, size)

    def printed(result: dict[str, Any]) -> None:
        if place["as_json"]:
            print(json.dumps(result))
        else:
            show(_COLUMNS, [[row[name] for name in _COLUMNS] for row in result["rates"]])
            click.echo(f"Medians of the rounds. {result['meaning']}")

    sys.exit(run_bench(place, lambda bench, reactor: Retained(bench, workload, mb, segment_mb).run(reactor), printed))
