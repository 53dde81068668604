"""Tables for people on a terminal; tab-separated lines, without a heading, for everything else."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click
from rich.console import Console
from rich.table import Table


def show(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows; numbers are set to the right, and a person is spared columns that are empty throughout."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join("" if cell is None else str(cell) for cell in row))
        return
    shown = [index for index in range(len(columns)) if not rows or any(row[index] not in (None, "") for row in rows)]
    headings = [columns[index] for index in shown]
    table = [[_text(row[index]) for index in shown] for row in rows]
    numbers = [bool(rows) and all(isinstance(row[index], _NUMBER) for row in rows) for index in shown]
    _print(headings, table, numbers)


#: None among numbers is one that is not known.
_NUMBER = (int, float, type(None))


def _text(cell: object) -> str:
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int | float) else str(cell)


def _print(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> None:
    """Where a line is too narrow, headings are wrapped and texts folded; words of headings and numbers stay whole."""
    console = Console()
    cells = [[row[index] for row in rows] for index in range(len(headings))]
    widest = sum(max(map(len, [heading, *each])) + 2 for heading, each in zip(headings, cells, strict=True)) - 2
    table = Table(box=None, pad_edge=False)
    for heading, each, is_number in zip(headings, cells, numbers, strict=True):
        least = max(map(len, [*heading.split(), *(each if is_number else ())]), default=0)
        table.add_column(
            heading,
            justify="right" if is_number else "left",
            overflow="fold",
            min_width=least,
            width=least if is_number and widest > console.width else None,
        )
    for row in rows:
        table.add_row(*row)
    console.print(table)


def show_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one pair a line."""
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in fields.items():
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int | float) else str(value))
    Console().print(table)
