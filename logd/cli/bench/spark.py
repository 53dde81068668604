"""``logd bench spark``: measures Spark reading a topic, beside the ceiling of a Python source and beside Parquet."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import click
from rich.console import Console

from logd.bench.rates.rounds import middle
from logd.bench.spark.reading import SparkBench, SparkResult
from logd.bench.spark.typed_import import SparkImportBench, SparkImportResult
from logd.cli.options import json_option
from logd.cli.terminal.tables import show_fields
from logd.errors import LogdError
from logd.protocol.optional_packages import pip_install

_WHOLE = click.IntRange(min=1)


@click.command(short_help="Measure Spark reading a topic, beside Parquet.")
@click.option("--messages", type=_WHOLE, default=4_000_000, show_default=True)
@click.option("--size", type=_WHOLE, default=200, show_default=True, help="Bytes of one message's payload.")
@click.option("--cores", type=_WHOLE, default=2, show_default=True, help="Concurrent tasks: local[CORES].")
@click.option("--rounds", type=_WHOLE, default=3, show_default=True, help="Rounds; the median one is the result.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    show_default=True,
    help="A folder for the broker's data and the Parquet files; they are removed.",
)
@click.option(
    "--typed-import",
    is_flag=True,
    help="Measure instead logd import with a schema registry, beside an import of the same messages as bytes.",
)
@json_option
def spark(messages: int, size: int, cores: int, rounds: int, folder: str, typed_import: bool, as_json: bool) -> None:
    """Measure Spark reading one partition of a topic, beside the same rows from Parquet files.

    The ceiling is a source in Python that has its rows ready and reads nothing. All are written to Spark's noop sink,
    in turn, in one local session. Needs Java, pyspark and pyarrow.
    With --typed-import whole imports are measured, with reading, decoding, writing and counting; it needs fastavro too.
    """
    console = Console(stderr=True)
    try:
        with console.status("") as status:
            tell: Callable[[str], None] = status.update if console.is_terminal else lambda _: None
            arguments = folder, messages, size, cores, rounds, tell
            results: list[SparkResult | SparkImportResult] = []
            results += SparkImportBench(*arguments).run() if typed_import else SparkBench(*arguments).run()
    except (LogdError, ImportError) as error:
        remedy = f": {pip_install('spark')}" if isinstance(error, ImportError) else ""
        console.print(f"logd: {error}{remedy}", style="red", markup=False)
        sys.exit(1)
    result = middle(results, _ratio).to_json()
    result["rounds"] = [_ratio(each) for each in results]
    if as_json:
        print(json.dumps(result))
    else:
        show_fields(result)


def _ratio(result: SparkResult | SparkImportResult) -> float:
    return result.ratio_to_parquet if isinstance(result, SparkResult) else result.ratio_to_untyped
