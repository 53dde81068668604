"""JSON of others, such as a value in the coordination tree: what is not plain JSON is a ValueError, and nothing else.

Python's reader takes more than JSON (NaN, the last of two equal keys), makes infinity of 1e999 and strings without any
UTF-8 of lone surrogates, and raises RecursionError for nested brackets.
"""

from __future__ import annotations

import json
from typing import Any

#: Bytes; ZooKeeper takes no node above 1 MiB.
MOST_BYTES = 16 << 20
#: Partitions, brokers, times and positions are at most as large as the protocol has room for.
INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1
#: Digits of INT64_MAX.
_MOST_DIGITS = 19


def load_json(data: bytes | str, most_bytes: int = MOST_BYTES) -> Any:
    """Read one value. Raises ValueError, with a short text, for whatever is wrong with it."""
    if len(data) > most_bytes:
        raise ValueError(f"{len(data)} bytes are too many")
    try:
        text = data if isinstance(data, str) else data.decode()
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_unique)
        if not text.isascii() or "\\u" in text:
            _require_unicode(value)
        return value
    except RecursionError:
        raise ValueError(f"it is nested too deeply: {excerpt(data)}") from None
    except ValueError as error:
        raise ValueError(f"{error}: {excerpt(data)}") from None


def require_depth(value: object, most: int) -> None:
    """Raise ValueError if lists and dicts are nested deeper than ``most`` levels."""
    level: list[object] = [value]
    for _ in range(most + 1):
        level = [
            inner
            for each in level
            if isinstance(each, (list, dict))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {most} levels")


def whole_number(value: object, most: int = INT32_MAX) -> int:
    """Return ``value`` if it is an integer from 0 to ``most``; raise ValueError."""
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{excerpt(value)} is no whole number from 0 to {most}")
    return value


def decimal(text: str, most: int = INT32_MAX) -> int:
    """Return the number that ``text`` is in decimal, without leading zeros, from 0 to ``most``; raise ValueError."""
    if len(text) <= _MOST_DIGITS and text.isascii() and text.isdigit() and (text[0] != "0" or text == "0"):
        return whole_number(int(text), most)
    raise ValueError(f"{excerpt(text)} is no number in decimal")


def decimals(names: list[str]) -> list[int]:
    """The numbers among names, ascending; what is no number is left out."""
    found = []
    for name in names:
        try:
            found.append(decimal(name))
        except ValueError:
            continue
    return sorted(found)


def excerpt(value: object) -> str:
    """The beginning of a value as it may stand in a log: printable, and short; of lists and dicts only the length."""
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and abs(value) > INT64_MAX:
        return f"a number of {value.bit_length()} bits"
    text = ascii(value[:200] if isinstance(value, (bytes, str)) else value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no number in JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is too large")
    return value


def _require_unicode(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half of a surrogate pair, which is no character: {error.reason}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found
