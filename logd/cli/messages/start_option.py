"""Reads the value of ``--from`` of ``logd consume``, and of ``--to`` of ``logd groups reset``.

Digits alone are always a position: a byte position in one partition's log, the ``id`` or ``next_position`` of a
message. A time is written as ISO 8601, or as ``@`` and seconds since 1970, as in the date command.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from logd.client.starting_positions import Position, Start, Time

#: The allowed values, for help and errors.
ALLOWED = (
    "earliest, latest, a position (digits), a time such as 2011-11-11T06:00:00Z (local time without a zone), or "
    "seconds since 1970 such as @1320991200"
)


class StartParameter(click.ParamType[Start]):
    """An end of the log, a position or a time."""

    name = "earliest|latest|POSITION|TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        """Refuse any other value."""
        try:
            return parse_start(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_start(text: str) -> Start:
    """Parse a starting position; raise ValueError that says what is allowed."""
    try:
        if text == "earliest":
            return "earliest"
        if text == "latest":
            return "latest"
        if text.isascii() and text.isdigit():
            return Position(int(text))
        if text.startswith("@"):
            return _time(float(text[1:]))
        return _time(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is not allowed; allowed is {ALLOWED}") from None


def _time(seconds: float) -> Time:
    if not 0 <= seconds < 1 << 50:
        raise ValueError(seconds)
    return Time(round(seconds * 1000))
