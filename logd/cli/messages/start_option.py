"""Where ``logd consume`` begins: reads what stands behind ``--from``.

Digits alone are always a position (a byte offset in one partition's log, the ``id`` or ``next_position`` of a message),
so a time never is: it is written as ISO 8601, or as seconds since 1970 behind an ``@``, as the date command has it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from logd.client.starting_positions import Position, Start, Time

#: What may stand there, for help and errors.
ALLOWED = (
    "earliest, latest, a position (digits), a time such as 2011-11-11T06:00:00Z (local time without a zone), or "
    "seconds since 1970 such as @1320991200"
)


class StartParameter(click.ParamType[Start]):
    """An end of the log, a position or a time."""

    name = "earliest|latest|POSITION|TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        """Refuse what is none of these."""
        try:
            return parse_start(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_start(text: str) -> Start:
    """Read where to begin; raise ValueError that says what is allowed."""
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
