"""``logd bench groups``: measures how long a group takes to settle, or the cost of a rebalance to the tree."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from twisted.internet.threads import deferToThread

from logd.bench.groups import Settling, settle_times
from logd.bench.rebalance_cost import RebalanceCost, rebalance_costs
from logd.cli.bench.running import run_with_servers
from logd.cli.options import json_option

_WHOLE = click.IntRange(min=1)
_SIMULATED = (10, 100, 1000)


@click.command(short_help="Measure how groups settle and rebalance.")
@click.option(
    "--simulate", is_flag=True, help="Count the requests of a rebalance to the tree, simulated in this process."
)
@click.option(
    "--consumers",
    type=click.IntRange(2),
    multiple=True,
    help="Number of consumers.  [default: 8; simulated 10 100 1000]",
)
@click.option("--partitions", type=_WHOLE, help="Number of partitions.  [default: 64; simulated 10000]")
@click.option("--rounds", type=_WHOLE, default=5, show_default=True, help="Rounds of two joins, a leave and a kill.")
@click.option(
    "--session",
    type=click.FloatRange(4.0, 40.0),
    default=4.0,
    show_default=True,
    help="Session timeout of the members in seconds, for which a kill has to wait.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    show_default=True,
    help="A folder for the data of broker and tree; the files made in it are removed.",
)
@json_option
def groups(
    simulate: bool,
    consumers: tuple[int, ...],
    partitions: int | None,
    rounds: int,
    session: float,
    folder: str,
    as_json: bool,
) -> None:
    """Measure consumer groups.

    Without --simulate, members are processes of their own, with a broker and a coordination server. Each time runs
    from the change until every partition is delivered to exactly one member again, evenly distributed.

    With --simulate, tree, clients and members run on a simulated clock. The requests to the tree and the
    watches that fire are counted, when one member joins and when one leaves.
    """
    if not simulate and len(consumers) > 1:
        raise click.UsageError("--consumers can be repeated only with --simulate")
    console = Console(stderr=True)

    async def work(reactor: Any) -> None:
        with console.status("") as status:
            tell: Callable[[str], None] = status.update if console.is_terminal else lambda _: None
            if simulate:
                costs: list[RebalanceCost] = []
                for number in consumers or _SIMULATED:
                    tell(f"simulating {number:,} consumers")
                    costs += await deferToThread(rebalance_costs, number, partitions or 10_000)
            else:
                settling = await settle_times(
                    reactor, folder, (*consumers, 8)[0], partitions or 64, rounds, session, tell
                )
        if simulate:
            _print_costs(costs, as_json)
        else:
            _print_settling(settling, as_json)

    sys.exit(run_with_servers(work))


def _print_costs(costs: list[RebalanceCost], as_json: bool) -> None:
    if as_json:
        print(json.dumps([cost.to_json() for cost in costs]))
        return
    columns = ("change", "consumers", "partitions", "seconds", "requests", "watches_fired", "names", "conflicts")
    table = Table(*(name.replace("_", " ") for name in columns))
    for cost in costs:
        values = [getattr(cost, name) for name in columns]
        table.add_row(*(f"{value:,}" if isinstance(value, int | float) else str(value) for value in values))
    Console().print(table)


def _print_settling(settling: Settling, as_json: bool) -> None:
    if as_json:
        print(json.dumps(settling.to_json()))
        return
    table = Table("ms to settle after", "median", "max", title=f"{settling.consumers} over {settling.partitions}")
    for name in ("join", "leave", "kill"):
        table.add_row(name, *(f"{getattr(settling, f'{name}_ms_{what}'):,}" for what in ("median", "max")))
    Console().print(table)
    print(f"session timeout, for which a kill has to wait: {settling.session_ms:,} ms")
