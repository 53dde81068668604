"""``logd bench security`` and ``logd bench quotas``: the cost of rights, and of noisy clients."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import click
from rich.console import Console

from logd.bench.rates.workload import Workload
from logd.bench.security.noisy_neighbour import NoisyBench
from logd.bench.security.security_cost import SecurityBench
from logd.cli.bench.running import run_with_servers
from logd.cli.bench.shapes import WHOLE
from logd.cli.options import json_option
from logd.cli.terminal.tables import show

_FOLDER = click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    show_default=True,
    help="A folder on the disk to measure; the files made in it are removed.",
)
_ROUNDS = click.option("--rounds", type=WHOLE, default=5, show_default=True, help="Rounds; medians are the result.")
_MESSAGES = click.option("--messages", type=WHOLE, default=1_000_000, show_default=True, help="Messages of each round.")
_SIZE = click.option("--size", type=WHOLE, default=200, show_default=True, help="Bytes of one message's payload.")
_BATCH = click.option("--batch", type=WHOLE, default=50, show_default=True, help="Messages of a set.")


@click.command(short_help="Measure the cost of authentication, access rules and quotas.")
@_MESSAGES
@_SIZE
@_BATCH
@click.option("--merge/--no-merge", default=True, help="Whether sets may share a request.  [default: merge]")
@_ROUNDS
@_FOLDER
@json_option
def security(messages: int, size: int, batch: int, merge: bool, rounds: int, folder: str, as_json: bool) -> None:
    """Measure a producer and a consumer at a broker with users, access rules and quotas, beside an open one.

    Two brokers of the same machine are measured in turn in each round. The user has authenticated, has rules among many
    others, and a quota that is measured and never reached. With --no-merge each set is a request of its own, which
    shows the cost of a request best.
    """
    workload = Workload(messages, size, batch, merge=merge)
    _measure(lambda reactor, tell: SecurityBench(reactor, folder, workload, rounds, tell).run(), "security", as_json)


@click.command(short_help="Measure what noisy clients with a quota cost a quiet one.")
@_MESSAGES
@_SIZE
@_BATCH
@click.option(
    "--quota", type=WHOLE, default=1_000_000, show_default=True, help="Bytes a second of the noisy clients together."
)
@click.option("--connections", type=WHOLE, default=4, show_default=True, help="Connections of the noisy clients.")
@_ROUNDS
@_FOLDER
@json_option
def quotas(
    messages: int, size: int, batch: int, quota: int, connections: int, rounds: int, folder: str, as_json: bool
) -> None:
    """Measure a quiet producer and consumer alone, beside noisy clients with a quota, and beside them without.

    The noisy clients are another user. They send, or fetch, as much as the broker lets them.
    """
    workload = Workload(messages, size, batch)

    def measured(reactor: Any, tell: Callable[[str], None]) -> Coroutine[Any, Any, Any]:
        return NoisyBench(reactor, folder, workload, rounds, quota, connections, tell).run()

    _measure(measured, "quotas", as_json)


def _measure(
    measured: Callable[[Any, Callable[[str], None]], Coroutine[Any, Any, Any]], name: str, as_json: bool
) -> None:
    console = Console(stderr=True)

    async def work(reactor: Any) -> None:
        with console.status("") as status:
            tell: Callable[[str], None] = status.update if console.is_terminal else lambda _: None
            rows = [each.to_json() for each in await measured(reactor, tell)]
        if as_json:
            print(json.dumps({"bench": name, "rows": rows}))
        else:
            show(list(rows[0]), [list(row.values()) for row in rows])

    sys.exit(run_with_servers(work))
