"""``logd bench latency``: one message after the other, or latency against rate."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from logd.bench.rates.latency_curve import LatencyCurve
from logd.bench.rates.result import summarise
from logd.bench.rates.workload import Workload
from logd.cli.bench.running import run_bench
from logd.cli.bench.shapes import WHOLE, place_options
from logd.cli.terminal.tables import show, show_fields

_FIGURES = (
    ("rate", "messages/s"),
    ("reached_per_second", "reached"),
    ("acknowledged_ms_median", "acknowledged ms, median"),
    ("acknowledged_ms_99", "99 %"),
    ("delivered_ms_median", "delivered ms, median"),
    ("delivered_ms_99", "99 %"),
    ("delivered_ms_99_9", "99.9 %"),
    ("sync_ms_99", "disk's sync ms, 99 %"),
    ("ratio_to_sync", "ratio"),
)


@click.command()
@click.option("--messages", type=WHOLE, default=2_000, show_default=True, help="Messages, one after the other.")
@click.option("--acks", type=click.Choice(["1", "-1"]), default="-1", show_default=True)
@click.option("--size", type=WHOLE, default=200, show_default=True, help="Bytes of one message's payload.")
@click.option("--curve", is_flag=True, help="Latency against rate: at 1, 10, 25, 50 and 75 % of the top rate.")
@click.option("--rate", type=WHOLE, multiple=True, help="Latency at this many messages a second. May be repeated.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=5.0, show_default=True, help="Length of each rate's measurement."
)
@place_options
def latency(
    messages: int, acks: str, size: int, curve: bool, rate: tuple[int, ...], seconds: float, **place: Any
) -> None:
    """Measure the time from send to acknowledgement and consumer.

    By default each message is sent when the one before has arrived. With --curve or --rate messages are sent on a fixed
    schedule, and a message's time counts from the moment at which it was due. The disk's own time to write and sync one
    message is measured before and after each rate; the ratio compares the two (acknowledged, 99 %).
    """
    if curve or rate:
        sys.exit(
            run_bench(
                place,
                lambda bench, reactor: LatencyCurve(bench, size, int(acks), rate, seconds).run(reactor),
                lambda result: print(json.dumps(result)) if place["as_json"] else _show_curve(result),
            )
        )
    workload = Workload(messages, size, 1, int(acks))

    def printed(results: Any) -> None:
        summary = summarise([each.to_json() for each in results], "delivered_ms_median")
        if place["as_json"]:
            print(json.dumps(summary))
        else:
            summary.pop("spread")
            show_fields(summary)

    sys.exit(run_bench(place, lambda bench, reactor: bench.latency(reactor, workload), printed))


def _show_curve(result: dict[str, Any]) -> None:
    show([heading for _, heading in _FIGURES], [[row[name] for name, _ in _FIGURES] for row in result["rates"]])
    click.echo(f"Medians of the rounds. {result['meaning']}")
