"""Runs a bench on the reactor, with a line about its progress on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from rich.console import Console

from logd.bench.rates.rounds import Bench, Where
from logd.bench.scratch import abandon
from logd.cli.reactor_command import Work, run
from logd.cli.stopping import Stopping

#: Seconds that an interrupted bench may take to end what it has started. Ctrl-C ends the servers that it has started as
#: well, as they are in its process group: tidying up at one that is gone would wait for it.
PATIENCE = 2.0


def run_with_servers(work: Work) -> int:
    """Run a bench that starts its servers itself, and return the exit status; nothing of it is left after Ctrl-C."""
    return run(work, Stopping(last_words=abandon, patience=PATIENCE))


def run_bench(
    place: Mapping[str, Any],
    measure: Callable[[Bench, Any], Coroutine[Any, Any, Any]],
    show: Callable[[Any], None],
) -> int:
    """Measure where ``place`` says (folder, broker, rounds), show the result, and return the exit status."""
    console = Console(stderr=True)

    async def work(reactor: Any) -> None:
        with console.status("") as status:
            tell: Callable[[str], None] = status.update if console.is_terminal else lambda _: None
            result = await measure(Bench(Where(place["folder"], place["broker"]), place["rounds"], tell), reactor)
        show(result)

    return run(work, Stopping(last_words=abandon)) if place["broker"] else run_with_servers(work)
