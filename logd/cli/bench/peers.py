"""``logd bench peers``: section 5 of the paper in one run, with the systems that are used in place of logd."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from logd.bench.systems.comparison import PeerComparison, PeerPlan
from logd.bench.systems.fetch import fetch
from logd.bench.systems.interruption import INTERRUPTED, ending_once
from logd.bench.systems.known import SYSTEMS
from logd.bench.systems.peer import Peer
from logd.bench.systems.places import VARIABLE, SystemPlaces
from logd.bench.systems.results.figures import draw
from logd.bench.systems.results.pages import renew
from logd.bench.systems.results.report import markdown
from logd.cli.bench.shapes import WHOLE
from logd.cli.options import json_option
from logd.errors import LogdError


@click.command(short_help="Measure logd and the systems that are used instead of it.")
@click.option(
    "--system",
    "systems",
    type=click.Choice(list(SYSTEMS)),
    multiple=True,
    help="Measure this one. May be repeated.  [default: all]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=5,
    show_default=True,
    help="A measurement has as many messages as the client sends in about this time; with 0 always --messages.",
)
@click.option(
    "--messages", type=WHOLE, default=2_000_000, show_default=True, help="The most messages of one measurement."
)
@click.option(
    "--single-messages", type=WHOLE, help="The same with one message to a request.  [default: that of --messages]"
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "-1"]),
    multiple=True,
    default=("1", "-1", "0"),
    show_default=True,
    help="Acknowledgements, for the clients of logd and Kafka; 0 with one message to a request alone. May be repeated.",
)
@click.option("--size", type=click.IntRange(10, 100_000), default=200, show_default=True, help="Bytes of a payload.")
@click.option(
    "--rate",
    "rates",
    type=WHOLE,
    multiple=True,
    default=(100, 1_000, 5_000, 20_000),
    show_default=True,
    help="Latency at this many messages a second. May be repeated.",
)
@click.option("--no-latency", is_flag=True, help="Measure no latency.")
@click.option("--rounds", type=WHOLE, default=3, show_default=True, help="Rounds; medians are the result.")
@click.option(
    "--systems-in",
    "place",
    type=click.Path(file_okay=False),
    envvar=VARIABLE,
    show_envvar=True,
    help="A folder with the programs of the systems, searched before the PATH.",
)
@click.option("--fetch", "wanted", is_flag=True, help="First download what is missing into the folder of --systems-in.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    show_default=True,
    help="A folder on the disk to measure; the files made in it are removed.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, writable=True),
    help="Write peers.json, peers.md and the figures (SVG, by matplotlib) into this folder, which is made if need be.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False),
    help="Measure nothing: take the result from the peers.json of an earlier run, for its table, figures and pages.",
)
@click.option(
    "--page",
    "pages",
    type=click.Path(exists=True, dir_okay=False, writable=True, path_type=Path),
    multiple=True,
    help="Put the figures of --out and the tables into this Markdown page, between its <!-- peers: ... --> comments. "
    "May be repeated.",
)
@json_option
def peers(
    systems: tuple[str, ...],
    single_messages: int | None,
    acks: tuple[str, ...],
    rates: tuple[int, ...],
    no_latency: bool,
    place: str | None,
    wanted: bool,
    folder: str,
    out: str | None,
    source: str | None,
    pages: tuple[Path, ...],
    as_json: bool,
    **shape: Any,
) -> None:
    """Measure logd, and each other system that is available, by the fastest clients that a Python user has.

    In every round each system is started with its data in a new folder, loaded by each of its clients, and stopped. The
    load: one message to a request, 50 to a request, and one message a call with the client's own batches; reading the
    messages back; latency at given rates. Short trials in the first round tell how many messages a measurement needs.
    If something cannot be measured, the result says so, with the reason. Nothing is downloaded without --fetch.
    """
    if wanted and not place:
        raise click.UsageError("--fetch needs --systems-in, the folder to fetch into")
    if pages and not out:
        raise click.UsageError("--page needs --out, the folder of the figures that the page shows")
    if out:
        Path(out).mkdir(parents=True, exist_ok=True)  # before a measurement of many minutes
    console = Console(stderr=True)
    places = SystemPlaces(os.path.abspath(place) if place else "")
    if source is not None:
        result = json.loads(Path(source).read_text(encoding="utf-8"))
    else:
        plan = PeerPlan(
            **shape,
            single_messages=single_messages or shape["messages"],
            acks=tuple(dict.fromkeys(map(int, acks))),
            rates=() if no_latency else rates,
        )
        chosen = [SYSTEMS[name] for name in systems or SYSTEMS]
        result = _measure(console, place if wanted else None, os.path.abspath(folder), places, plan, chosen)
    try:
        if out:
            _write(result, Path(out), places, console)
            if source is None:
                Path(out, "peers.md").write_text(markdown(result), encoding="utf-8")
        for page in pages:
            renew(page, result, Path(out or ""))
    except LogdError as error:
        console.print(f"logd: {error}", style="red", markup=False)
        sys.exit(1)
    click.echo(json.dumps(result) if as_json else markdown(result), nl=as_json)
    sys.exit(0 if result["figures"] else 1)


def _measure(
    console: Console,
    wanted: str | None,
    folder: str,
    places: SystemPlaces,
    plan: PeerPlan,
    chosen: Sequence[type[Peer]],
) -> dict[str, Any]:
    """Fetch into the folder ``wanted``, if any, and measure; a signal ends the process after the systems."""
    try:
        with ending_once(), console.status("") as status:
            parts = {system.fetched for system in chosen}
            tell: Callable[[str], None] = status.update if console.is_terminal else lambda _: None
            for name, reason in (fetch(wanted, parts, tell) if wanted else {}).items():
                console.print(f"logd: {name} could not be fetched: {reason}", style="red", markup=False)
            return PeerComparison(folder, places, plan, chosen, tell).run()
    except KeyboardInterrupt:
        text = "interrupted: every system was stopped, its data removed, and no result written"
        console.print(f"logd: {text}", style="red", markup=False)
        sys.exit(INTERRUPTED)


def _write(result: dict[str, Any], out: Path, places: SystemPlaces, console: Console) -> None:
    (out / "peers.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    fetched = places.python_folder()
    if fetched:
        sys.path.append(fetched)  # matplotlib may be there
    try:
        draw(result, str(out))
    except ImportError as error:
        console.print(f"logd: no figures: {error} (pip install matplotlib)", style="red", markup=False)
