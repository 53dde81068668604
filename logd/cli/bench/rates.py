"""``logd bench produce`` and ``logd bench consume``: rates beside the limit of the machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from logd.bench.rates.consume import FORMS
from logd.bench.rates.result import Result, meaning, summarise
from logd.bench.rates.workload import CALLS
from logd.cli.bench.running import run_bench
from logd.cli.bench.shapes import WHOLE, place_options, shape_options, workloads
from logd.cli.terminal.tables import show, show_fields

#: The parts of a workload that may differ between the rows of a table, and the figures of a row.
_SHAPES = ("size", "batch", "compression", "partitions", "connections", "loop")
_FIGURES = (
    ("messages_per_second", "messages/s"),
    ("megabytes_per_second", "MB/s"),
    ("limit_megabytes_per_second", "limit MB/s"),
    ("ratio_to_limit", "ratio"),
    ("log_bytes_per_message", "log bytes each"),
    ("client_processor_seconds", "client s"),
    ("broker_processor_seconds", "broker s"),
    ("client_peak_megabytes", "client MB"),
    ("broker_peak_megabytes", "broker MB"),
)


@click.command(short_help="Measure producers in many shapes of load.")
@click.option(
    "--call",
    type=click.Choice(CALLS),
    default="set",
    show_default=True,
    help="The call that is measured: send with a set, send with one message and a Deferred, publish with one message.",
)
@click.option("--batch", type=WHOLE, multiple=True, help="Messages of a set. May be repeated.  [default: 50]")
@click.option(
    "--merge/--no-merge", default=True, help="Whether waiting message sets may share a request.  [default: merge]"
)
@click.option("--acks", type=click.Choice(["0", "1", "-1"]), default="1", show_default=True)
@shape_options
@place_options
def produce(call: str, batch: tuple[int, ...], merge: bool, acks: str, **options: Any) -> None:
    """Measure producers in one process.

    Every round measures each combination of the given values of --size, --batch, --compression, --partitions,
    --connections and --loop, in turn.
    """
    if call != "set" and batch:
        raise click.UsageError(f"--batch is for --call set: --call {call} gets one message")
    place, shapes = _apart(options)
    wanted = workloads(**shapes, batch=batch, call=call, acks=int(acks), merge=merge)
    sys.exit(run_bench(place, lambda bench, reactor: bench.produce(reactor, wanted), _printer(place["as_json"])))


@click.command(short_help="Measure consumers that read a topic to its end.")
@click.option("--raw", is_flag=True, help="Read the bytes of the log, neither verified nor decoded.")
@click.option("--batches", is_flag=True, help="Read lists of messages, as `async for batch in stream.batches()` does.")
@shape_options
@place_options
def consume(raw: bool, batches: bool, **options: Any) -> None:
    """Measure consumers in one process, which read from the beginning of the log to its end.

    A single connection reads all partitions; of several, each reads the whole of one partition. Every round measures
    each combination of the given values, in turn.
    """
    if raw and batches:
        raise click.UsageError("--raw and --batches exclude each other")
    form = FORMS[2] if raw else FORMS[1] if batches else FORMS[0]
    place, shapes = _apart(options)
    wanted = workloads(**shapes)
    sys.exit(run_bench(place, lambda bench, reactor: bench.consume(reactor, wanted, form), _printer(place["as_json"])))


def _apart(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    place = {name: options.pop(name) for name in ("folder", "broker", "rounds", "as_json")}
    return place, options


def _printer(as_json: bool) -> Any:
    def printed(measured: Sequence[Sequence[Result]]) -> None:
        summaries = [summarise([each.to_json() for each in rounds], "ratio_to_limit") for rounds in measured]
        for each in summaries:
            each["meaning"] = meaning(each)
        if as_json:
            print(json.dumps(summaries if len(summaries) > 1 else summaries[0]))
        elif len(summaries) == 1:
            (summary,) = summaries
            words = summary.pop("meaning")
            show_fields(_with_spread(summary))
            click.echo(words)
        else:
            _show_table(summaries)

    return printed


def _with_spread(summary: dict[str, object]) -> dict[str, object]:
    """Return the fields with the least and greatest value beside the median."""
    fields = dict(summary)
    spread: Any = fields.pop("spread")
    for name, (low, high) in spread.items():
        fields[name] = f"{fields[name]:,} ({low:,} to {high:,})"
    return fields


def _show_table(summaries: Sequence[dict[str, Any]]) -> None:
    shapes = [name for name in _SHAPES if len({each[name] for each in summaries}) > 1]
    rows = []
    for each in summaries:
        low, high = each["spread"].get("messages_per_second", (each["messages_per_second"],) * 2)
        rows.append([*(each[name] for name in shapes), f"{low:,} to {high:,}", *(each[name] for name, _ in _FIGURES)])
    show([*shapes, "messages/s, spread", *(heading for _, heading in _FIGURES)], rows)
    click.echo("Medians of the rounds. " + str(summaries[0]["meaning"]))
