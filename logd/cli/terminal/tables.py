"""Prints tables on a terminal, and tab-separated lines without a heading elsewhere.

Rich, which takes a while, is imported only where a table is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout

import click

from logd.cli.terminal.rendering import escape_controls

#: Text up to this length is never folded, however narrow the terminal: an address, HOST:PORT in IPv4.
_WHOLE = 21
#: None in a column of numbers is an unknown number.
_NUMBER = (int, float, type(None))


def show(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows. On a terminal, numbers are right-aligned and never folded, and empty columns are left out."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join("" if cell is None else _for_scripts(str(cell)) for cell in row))
        return
    shown = [index for index in range(len(columns)) if not rows or any(row[index] not in (None, "") for row in rows)]
    headings = [columns[index] for index in shown]
    table = [[_text(row[index]) for index in shown] for row in rows]
    numbers = [bool(rows) and all(isinstance(row[index], _NUMBER) for row in rows) for index in shown]
    _print(headings, table, numbers)


def show_line(text: str) -> None:
    """Print one line that may have others' words in it, such as messages: a terminal must not obey them."""
    click.echo(_escaped(text) if sys.stdout.isatty() else text)


def show_before_asking(columns: Sequence[str], rows: Sequence[Sequence[object]], as_json: bool) -> None:
    """Print rows that a question is about; on stderr if standard output is for JSON alone."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        show(columns, rows)


def show_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one pair a line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in fields.items():
        table.add_row(name.replace("_", " "), Text(_text(value)))
    Console().print(table)


def _text(cell: object) -> str:
    if cell is None:
        return ""
    # Names of groups' members and of servers are others' words: a terminal must not obey them.
    return f"{cell:,}" if isinstance(cell, int | float) else _escaped(str(cell))


def _for_scripts(text: str) -> str:
    """Return text that begins no further column and no further line."""
    return text if text.isprintable() else _escaped(text).replace("\t", "\\t").replace("\n", "\\n")


def _escaped(text: str) -> str:
    return text if text.isprintable() else escape_controls(text.encode("utf-8", "backslashreplace")).decode()


def _print(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> None:
    """Print a table on a terminal. In a narrow one headings wrap and texts fold; numbers and heading words do not."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    cells = [[row[index] for row in rows] for index in range(len(headings))]
    longest = [max(map(len, each), default=0) for each in cells]
    tight = [
        max([*map(len, heading.split()), width if is_number else 0])
        for heading, width, is_number in zip(headings, longest, numbers, strict=True)
    ]
    whole = [max(least, min(width, _WHOLE)) for least, width in zip(tight, longest, strict=True)]
    room = console.width - 2 * (len(headings) - 1)
    widest = sum(max(len(heading), width) for heading, width in zip(headings, longest, strict=True))
    table = Table(box=None, pad_edge=False)
    # A table that is too wide in any case need not be folded further.
    fits = sum(tight) <= room
    leasts = tight if fits and room < sum(whole) else whole
    for heading, least, is_number in zip(headings, leasts, numbers, strict=True):
        table.add_column(
            heading,
            justify="right" if is_number else "left",
            overflow="fold",
            min_width=least,
            width=least if is_number and fits and widest > room else None,
        )
    for row in rows:
        # Text rather than str: rich would parse a str as markup, and logs are full of brackets.
        table.add_row(*map(Text, row))
    console.print(table, crop=False)  # if still too wide, the terminal breaks the lines
