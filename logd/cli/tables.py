"""Tables for people on a terminal; tab-separated lines, without a heading, for everything else."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: A word of so many characters is not cut in two, however narrow the terminal: an address, HOST:PORT in IPv4.
_WHOLE = 21


def show(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows. At a terminal numbers are set to the right and never cut in two, and what no row has is left out."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join("" if cell is None else str(cell) for cell in row))
        return
    table = Table(box=None, pad_edge=False)
    shown = [index for index in range(len(columns)) if not rows or any(row[index] not in (None, "") for row in rows)]
    for index in shown:
        cells = [row[index] for row in rows if row[index] is not None]
        numbers = bool(cells) and all(isinstance(cell, int | float) for cell in cells)
        longest = max((len(_text(cell)) for cell in cells), default=0)
        table.add_column(
            columns[index],
            justify="right" if numbers else "left",
            overflow="fold",
            min_width=longest if numbers else min(longest, _WHOLE),
        )
    for row in rows:
        # Not as plain strings: in these rich looks for markup, and a log is full of brackets.
        table.add_row(*(Text(_text(row[index])) for index in shown))
    Console().print(table, crop=False)  # where it is too wide all the same, the terminal breaks its lines


def _text(cell: object) -> str:
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int | float) else str(cell)


def show_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one pair a line."""
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in fields.items():
        table.add_row(name.replace("_", " "), Text(_text(value)))
    Console().print(table)
