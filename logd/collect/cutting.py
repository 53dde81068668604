"""Cuts data into lines at newlines only, keeping every other byte; over-long lines are cut by a policy."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from logd.errors import LogdError

#: Policy for lines longer than the limit: split into pieces of that length, skip, or fail.
LongLines = Literal["split", "skip", "fail"]


class LineTooLong(LogdError):
    """A line is longer than allowed, and the policy is to fail."""


@frozen
class Rules:
    """The rules for cutting lines; ``limit`` is in bytes, without the newline."""

    limit: int
    long_lines: LongLines = "split"


@frozen
class Cut:
    """The lines cut, the bytes used for them, and the bytes skipped."""

    lines: list[bytes]
    used: int
    #: Bytes of over-long lines that were skipped.
    skipped: int = 0
    #: True while the rest of an over-long line is still to be skipped.
    skipping: bool = False


def cut(data: bytes, rules: Rules, whole: bool = False, skipping: bool = False) -> Cut:
    """Cut the lines that are complete; with ``whole`` the unfinished rest is a line too.

    ``data`` begins at a line or, with ``skipping``, inside an over-long line. It has to hold more than ``rules.limit``
    bytes for an over-long line to be detected. Raises LineTooLong.
    """
    start = skipped = 0
    if skipping:
        start = data.find(b"\n") + 1
        if not start:
            return Cut([], len(data), len(data), not whole)
        skipped = start
    limit = rules.limit
    used = data.rfind(b"\n") + 1
    if used > start:
        lines = data[start : used - 1].split(b"\n")
        if len(max(lines, key=len)) > limit:
            lines, more = _shorten(lines, rules)
            skipped += more
    else:
        used, lines = start, []
        rest = len(data) - used
        if rest > limit:
            if rules.long_lines == "fail":
                raise LineTooLong(f"a line is longer than {limit} bytes")
            if rules.long_lines == "skip":
                return Cut([], len(data), skipped + rest, not whole)
            return Cut([data[used : used + limit]], used + limit, skipped)
    if whole and 0 < len(data) - used <= limit:
        lines.append(data[used:])
        used = len(data)
    return Cut(lines, used, skipped)


def _shorten(lines: list[bytes], rules: Rules) -> tuple[list[bytes], int]:
    """Apply the policy; return the lines and the number of skipped bytes, newlines included."""
    limit = rules.limit
    if rules.long_lines == "fail":
        raise LineTooLong(f"a line is longer than {limit} bytes")
    if rules.long_lines == "skip":
        kept = [line for line in lines if len(line) <= limit]
        return kept, sum(len(line) + 1 for line in lines if len(line) > limit)
    return [line[at : at + limit] for line in lines for at in range(0, len(line) or 1, limit)], 0
