"""The outcome of something that is tried: a text for the table, instead of an exception."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping

from logd.errors import LogdError

#: A name for the table, and the work that raises if it does not go as it should.
Work = tuple[str, Callable[[], object]]


def outcomes(works: Iterable[Work]) -> Iterator[tuple[str, str]]:
    """Do the works in turn; yield the name of each, and how it went."""
    for name, work in works:
        try:
            work()
        except (
            AssertionError,
            LogdError,
            LookupError,
            OSError,
            StopIteration,
            ValueError,
            subprocess.SubprocessError,
        ) as error:
            yield name, f"FAILED: {type(error).__name__}: {error}"
        else:
            yield name, "as expected"


def check(found: object, expected: object) -> None:
    """Raise AssertionError unless the two are equal."""
    if found != expected:
        raise AssertionError(f"{str(found)[:200]} instead of {str(expected)[:200]}")


def check_each(found: Mapping[str, object], expected: Mapping[str, object]) -> None:
    """Raise AssertionError unless what is expected is found by each name; it tells only the names that differ."""
    wrong = {name: found.get(name) for name, value in expected.items() if found.get(name) != value}
    if wrong:
        raise AssertionError(f"{wrong} instead of { {name: expected[name] for name in wrong} }")
