"""Tables for people on a terminal; tab-separated lines, without a heading, for everything else."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click
from rich.console import Console
from rich.table import Table


def show(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows; numbers are set to the right."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join("" if cell is None else str(cell) for cell in row))
        return
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], int) for row in rows)
        table.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    Console().print(table)


def show_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one pair a line."""
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in fields.items():
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int | float) else str(value))
    Console().print(table)
