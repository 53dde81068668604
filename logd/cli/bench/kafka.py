"""``logd bench kafka``: logd beside Apache Kafka, under Kafka's own clients."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from logd.bench.kafka_clients import KafkaClientsBench, compared
from logd.bench.systems.interruption import INTERRUPTED, ending_once
from logd.bench.systems.places import VARIABLE, SystemPlaces
from logd.bench.systems.results.report import machine_words, rounds_words
from logd.cli.bench.shapes import WHOLE
from logd.cli.options import json_option


@click.command(short_help="Measure logd beside Apache Kafka, with Kafka's clients.")
@click.option("--messages", type=WHOLE, default=2_000_000, show_default=True, help="Messages of one measurement.")
@click.option("--size", type=click.IntRange(10, 100_000), default=200, show_default=True, help="Bytes of a payload.")
@click.option("--rounds", type=WHOLE, default=3, show_default=True, help="Rounds; medians are the result.")
@click.option("--clusters", is_flag=True, help="Measure three brokers of each, with three replicas and acks=all.")
@click.option(
    "--kills",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="With --clusters: leaders that are killed, to measure how long nothing is acknowledged.",
)
@click.option(
    "--systems-in",
    "place",
    type=click.Path(exists=True, file_okay=False),
    envvar=VARIABLE,
    show_envvar=True,
    required=True,
    help="A folder with Kafka's jars in kafka*/libs, such as `logd bench peers --system kafka --fetch` makes.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    show_default=True,
    help="A folder on the disk to measure; the files made in it are removed.",
)
@json_option
def kafka(
    messages: int, size: int, rounds: int, clusters: bool, kills: int, place: str, folder: str, as_json: bool
) -> None:
    """Measure a broker of logd and one of Apache Kafka in turn, on the same disk.

    Both are loaded by Kafka's perf tools (Java) and by confluent-kafka, with acks=1, in batches of 16 KB and of 1 MB.
    logd shows a message once it is flushed; Kafka by its defaults never waits for the disk. Both brokers and the
    clients share the processors of this machine.

    With --clusters each has three brokers on this machine, and acks=all: logd has then flushed a message on every
    in-sync replica. Then leaders are killed: the time is that from the last acknowledgement to the next.
    """
    console = Console(stderr=True)
    places = SystemPlaces(os.path.abspath(place))
    try:
        with ending_once(), console.status("") as status:
            tell: Callable[[str], None] = status.update if console.is_terminal else lambda _: None
            bench = KafkaClientsBench(os.path.abspath(folder), places, messages, size, rounds, tell, clusters, kills)
            result = bench.run()
    except KeyboardInterrupt:
        console.print("logd: interrupted: both brokers were stopped, and their data removed", style="red")
        sys.exit(INTERRUPTED)
    if as_json:
        click.echo(json.dumps(result))
    else:
        _show(result)
    sys.exit(0 if result["ratios"] else 1)


def _show(result: Mapping[str, Any]) -> None:
    table = Table("", "logd", "Apache Kafka", "ratio", title="logd beside Apache Kafka")
    for each in compared(result):
        row = each.to_json()
        table.add_row(each.what, f"{each.logd:,}", f"{each.kafka:,}", f"{row['ratio']}")
    Console().print(table)
    for one in result["failover"]:
        words = f"{one['seconds_median']} s median, {one['seconds_worst']} s at worst of {one['kills']}"
        print(f"{one['system']}: nothing was acknowledged after the leader's death for {words}.")
    print(f"Messages of {result['size']} bytes; {rounds_words(result)}; {machine_words(result)}.")
    for missing in result["missing"]:
        print(f"not measured: {missing['name']}: {missing['reason']}")
