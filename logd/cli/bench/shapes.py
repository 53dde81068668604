"""The options of benches for the shape of the load; each of several values of one option makes a row."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, TypeVar

import click

from logd.bench.rates.workload import CODECS, FORMATS, LOOPS, Workload
from logd.cli.options import BrokersParameter, json_option

Command = TypeVar("Command", bound=Callable[..., Any])

WHOLE = click.IntRange(min=1)
#: Bytes of payloads in one run of a workload, unless --messages says how many there are.
TOTAL_BYTES = 400_000_000
#: The most messages in a run without --messages: a second or a few with each way to send.
MOST_SETS, MOST_CALLS = 2_000_000, 300_000
#: The largest set that is sent without --batch.
SET_BYTES = 500_000
DEFAULT_BATCH = 50


def place_options(command: Command) -> Command:
    """--folder, --broker, --rounds and --json."""
    for option in (
        json_option,
        click.option("--rounds", type=WHOLE, default=3, show_default=True, help="Rounds; medians are the result."),
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


def shape_options(command: Command) -> Command:
    """--messages and --format; --size, --compression, --partitions, --connections and --loop, which may be repeated."""
    for option in (
        click.option(
            "--loop",
            type=click.Choice(LOOPS),
            multiple=True,
            default=(LOOPS[0],),
            show_default=True,
            help="Clients on Twisted's reactor, or those of logd.aio on asyncio's event loop. May be repeated.",
        ),
        click.option(
            "--connections",
            type=click.IntRange(1, 5000),
            multiple=True,
            default=(1,),
            show_default=True,
            help="Clients, each with a connection of its own, in one process. May be repeated.",
        ),
        click.option(
            "--partitions",
            type=click.IntRange(1, 10_000),
            multiple=True,
            default=(1,),
            show_default=True,
            help="Partitions of the topic. May be repeated.",
        ),
        click.option(
            "--compression",
            type=click.Choice(CODECS["batch"]),
            multiple=True,
            default=("none",),
            show_default=True,
            help="Compression of the messages; lz4 with --format batch alone. May be repeated.",
        ),
        click.option(
            "--size",
            type=click.IntRange(1, 1_000_000),
            multiple=True,
            default=(200,),
            show_default=True,
            help="Bytes of one message's payload. May be repeated.",
        ),
        click.option(
            "--format",
            type=click.Choice(FORMATS),
            default=FORMATS[0],
            show_default=True,
            help="The producer's format: an entry for each message, or batches with one checksum.",
        ),
        click.option(
            "--messages",
            type=WHOLE,
            help="Messages of one run.  [default: 2,000,000, with one message a call 300,000, or 400 MB of them]",
        ),
    ):
        command = option(command)
    return command


def workloads(
    messages: int | None,
    size: tuple[int, ...],
    compression: tuple[str, ...],
    partitions: tuple[int, ...],
    connections: tuple[int, ...],
    batch: tuple[int, ...] = (),
    call: str = "set",
    loop: tuple[str, ...] = LOOPS[:1],
    **rest: Any,
) -> list[Workload]:
    """Return a workload for each combination of the given values. Raises click.UsageError for one that cannot be."""
    form = rest.get("format", FORMATS[0])
    for codec in compression:
        if codec not in CODECS[form]:
            raise click.UsageError(
                f"--compression {codec} needs --format batch; --format {form} has {', '.join(CODECS[form])}"
            )
    found = []
    for bytes_each, codec, logs, clients, given, loop_each in product(
        size, compression, partitions, connections, batch or (None,), loop
    ):
        each = 1 if call != "set" else given or max(1, min(DEFAULT_BATCH, SET_BYTES // bytes_each))
        most = MOST_SETS if call == "set" else MOST_CALLS
        total = messages or max(1000, min(most, TOTAL_BYTES // bytes_each))
        least = each * clients
        found.append(
            Workload(
                max(total, least),
                bytes_each,
                each,
                call=call,
                compression=codec,
                partitions=logs,
                connections=clients,
                loop=loop_each,
                **rest,
            )
        )
    return list(dict.fromkeys(found))
