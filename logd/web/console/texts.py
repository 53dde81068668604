"""Numbers, sizes, times and messages as a person reads them."""

from __future__ import annotations

import json
import time
from typing import Any

#: The text in place of what is not known.
UNKNOWN = "unknown"
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
#: Bytes of a message that are shown.
SHOWN_BYTES = 4000


def size(count: float | None) -> str:
    """Return a number of bytes, such as ``1.5 MB``."""
    if count is None:
        return UNKNOWN
    value = float(count)
    for unit in _UNITS:
        if value < 999.5 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("the last unit has no limit")


def rate(count: float | None) -> str:
    """Return bytes a second."""
    return UNKNOWN if count is None else f"{size(count)}/s"


def number(value: float | None) -> str:
    """Return a number with thin groups of three digits, such as ``12 345``."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}".replace(",", "\u202f")


def duration(seconds: float | None) -> str:
    """Return a time span, such as ``3 min`` or ``2.5 h``."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return "0 s" if seconds <= 0 else "< 1 s"
    for limit, divisor, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            value = seconds / divisor
            return f"{value:.0f} {unit}" if value >= 10 or divisor == 1 else f"{value:.1f} {unit}"
    days = f"{seconds / 86_400:.1f}".removesuffix(".0")
    return f"{days} days"


def retention(milliseconds: int, count: int) -> str:
    """Return how long messages are kept."""
    limits = [duration(milliseconds / 1000)] if milliseconds >= 0 else []
    limits += [size(count)] if count >= 0 else []
    return " or ".join(limits) or "for ever"


def moment(milliseconds: int | None) -> str:
    """Return a time of day in UTC, to the millisecond."""
    if milliseconds is None or milliseconds < 0:
        return UNKNOWN
    try:
        there = time.gmtime(milliseconds // 1000)
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds} ms"
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', there)}.{milliseconds % 1000:03d}Z"


def as_text(data: bytes | None) -> str:
    """Return bytes as UTF-8; what is none is shown by escapes."""
    if data is None:
        return "(no value: a tombstone)"
    shown = data[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return shown + _rest(data)


def as_json(data: bytes | None) -> str:
    """Return JSON with indents; what is no JSON as text."""
    if data is not None and len(data) <= 100 * SHOWN_BYTES:
        try:
            return indented(json.loads(data))
        except (ValueError, RecursionError):
            pass
    return as_text(data)


def indented(value: Any) -> str:
    """Return the beginning of a value as JSON with indents. Raises RecursionError, and what ``str`` of a value raises.

    The rest is never made: deep in nested lists each number of a message has a line of a kilobyte.
    """
    parts: list[str] = []
    length = 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False, default=str).iterencode(value):
        parts.append(part)
        length += len(part)
        if length >= 2 * SHOWN_BYTES:
            break
    # JSON may name halves of characters, which are none in UTF-8.
    return "".join(parts)[: 2 * SHOWN_BYTES].encode("utf-8", "backslashreplace").decode()


def as_hex(data: bytes | None) -> str:
    """Return bytes as rows of sixteen, with their characters."""
    if data is None:
        return as_text(data)
    rows = []
    for at in range(0, min(len(data), SHOWN_BYTES // 4), 16):
        row = data[at : at + 16]
        shown = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        rows.append(f"{at:06x}  {row.hex(' '):<47}  {shown}")
    return "\n".join(rows) + (f"\n… {number(len(data))} bytes in all" if len(data) > SHOWN_BYTES // 4 else "")


def _rest(data: bytes) -> str:
    return f" … {number(len(data))} bytes in all" if len(data) > SHOWN_BYTES else ""


FILTERS: dict[str, Any] = {
    "size": size,
    "rate": rate,
    "number": number,
    "duration": duration,
    "moment": moment,
}
#: The forms in which messages are shown.
FORMATS: dict[str, Any] = {"text": as_text, "json": as_json, "hex": as_hex}
