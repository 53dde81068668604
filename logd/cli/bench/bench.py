"""``logd bench``: measures produce and consume on this machine, beside the limit of the machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from rich.console import Console

from logd.bench.rounds import Bench, Where, middle
from logd.bench.workload import Workload
from logd.cli.bench.beside import beside
from logd.cli.bench.coordination import coordination
from logd.cli.bench.groups import groups
from logd.cli.bench.partitions import partitions
from logd.cli.bench.spark import spark
from logd.cli.options import BrokersParameter, json_option
from logd.cli.reactor_command import run
from logd.cli.terminal.tables import show_fields

Command = TypeVar("Command", bound=Callable[..., Any])

_WHOLE = click.IntRange(min=1)


def _shared(command: Command) -> Command:
    for option in (
        json_option,
        click.option(
            "--rounds", type=_WHOLE, default=3, show_default=True, help="Rounds; the median one is the result."
        ),
        click.option("--size", type=_WHOLE, default=200, show_default=True, help="Bytes of one message's payload."),
        click.option(
            "--folder",
            type=click.Path(exists=True, file_okay=False, writable=True),
            default=".",
            show_default=True,
            help="A folder on the disk to measure; the files made in it are removed.",
        ),
        click.option(
            "--broker",
            type=BrokersParameter(),
            default=None,
            help="Measure this running broker, with --folder on its disk; by default one is started.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def bench() -> None:
    """Measure produce, consume, latency and groups.

    Rates are shown beside the limit of the machine, measured in the same run. For produce the limit is reading bytes
    from a socket and writing them to a file without a flush; for consume it is sendfile of a cached file to a process
    that reads. On a noisy machine the ratio is more reliable than the rate.
    """


@bench.command()
@click.option("--messages", type=_WHOLE, default=2_000_000, show_default=True)
@click.option("--batch", type=_WHOLE, default=50, show_default=True, help="Messages sent at a time.")
@click.option(
    "--merge/--no-merge", default=True, help="Whether waiting message sets may share a request.  [default: merge]"
)
@click.option("--acks", type=click.Choice(["0", "1", "-1"]), default="1", show_default=True)
@_shared
def produce(messages: int, batch: int, merge: bool, acks: str, **options: Any) -> None:
    """Measure one producer on one partition."""
    workload = Workload(messages, options["size"], batch, int(acks), merge)
    _run(options, lambda bench, reactor: bench.produce(reactor, workload))


@bench.command()
@click.option("--messages", type=_WHOLE, default=4_000_000, show_default=True)
@click.option("--raw", is_flag=True, help="Read the bytes of the log, neither verified nor decoded.")
@_shared
def consume(messages: int, raw: bool, **options: Any) -> None:
    """Measure one consumer of one partition. It reads from the beginning of the log to its end."""
    workload = Workload(messages, options["size"])
    _run(options, lambda bench, reactor: bench.consume(reactor, workload, raw))


@bench.command()
@click.option("--messages", type=_WHOLE, default=2_000, show_default=True)
@click.option("--acks", type=click.Choice(["1", "-1"]), default="-1", show_default=True)
@_shared
def latency(messages: int, acks: str, **options: Any) -> None:
    """Measure one message at a time, from send to consumer."""
    workload = Workload(messages, options["size"], 1, int(acks))
    _run(options, lambda bench, reactor: bench.latency(reactor, workload), key="delivered_ms_median")


bench.add_command(beside)
bench.add_command(groups)
bench.add_command(partitions)
bench.add_command(coordination)
bench.add_command(spark)


def _run(options: dict[str, Any], measure: Callable[[Bench, Any], Any], key: str = "ratio_to_limit") -> None:
    console = Console(stderr=True)

    async def work(reactor: Any) -> None:
        with console.status("") as status:
            tell: Callable[[str], None] = status.update if console.is_terminal else lambda _: None
            results = await measure(
                Bench(Where(options["folder"], options["broker"]), options["rounds"], tell), reactor
            )
        result = middle(results, lambda each: float(getattr(each, key))).to_json()
        result["rounds"] = [each.to_json()[key] for each in results]
        if options["as_json"]:
            print(json.dumps(result))
        else:
            show_fields(result)

    sys.exit(run(work))
