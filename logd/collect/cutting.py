"""Cuts what was read into lines: at the newline and nowhere else, every other byte kept, over-long ones by a policy."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from logd.errors import LogdError

#: What becomes of a line that is longer than the limit: pieces of the limit's length, nothing, or the end.
LongLines = Literal["split", "skip", "fail"]


class LineTooLong(LogdError):
    """A line is longer than allowed, and the setting says that this is the end."""


@frozen
class Rules:
    """How lines are cut: ``limit`` in bytes without the newline."""

    limit: int
    long_lines: LongLines = "split"


@frozen
class Cut:
    """Lines, how many bytes they came with, and what was left out of them by ``skip``."""

    lines: list[bytes]
    used: int
    #: Bytes of over-long lines that were left out.
    skipped: int = 0
    #: Whether the rest of an over-long line is still to come, and to be left out.
    skipping: bool = False


def cut(data: bytes, rules: Rules, whole: bool = False, skipping: bool = False) -> Cut:
    """Cut the lines that are complete; with ``whole`` the unfinished rest is a line too.

    ``data`` begins at a line, or, ``skipping``, inside one that is too long; to find a line that is, it has to hold
    more than ``rules.limit`` bytes. Raises LineTooLong.
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
    """The lines by the policy, and how many bytes were left out (newlines counted)."""
    limit = rules.limit
    if rules.long_lines == "fail":
        raise LineTooLong(f"a line is longer than {limit} bytes")
    if rules.long_lines == "skip":
        kept = [line for line in lines if len(line) <= limit]
        return kept, sum(len(line) + 1 for line in lines if len(line) > limit)
    return [line[at : at + limit] for line in lines for at in range(0, len(line) or 1, limit)], 0
