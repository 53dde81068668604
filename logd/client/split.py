"""Sorts the keyword arguments of a client into its settings objects."""

from __future__ import annotations

import difflib
from typing import Any, TypeVar

import attrs

from logd.errors import ConfigurationError

A = TypeVar("A", bound=attrs.AttrsInstance)
B = TypeVar("B", bound=attrs.AttrsInstance)


def split_settings(given: dict[str, Any], first: type[A], second: type[B]) -> tuple[A, B]:
    """Return one object of each class; raise ConfigurationError for an unknown name or a value not allowed."""
    names = [[field.name for field in attrs.fields(cls)] for cls in (first, second)]
    for name in given:
        if name not in names[0] and name not in names[1]:
            close = difflib.get_close_matches(name, names[0] + names[1], 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            allowed = ", ".join(sorted(names[0] + names[1]))
            raise ConfigurationError(f"{name} = {given[name]!r}: there is no such setting{hint} Allowed are: {allowed}")
    return (
        first(**{name: value for name, value in given.items() if name in names[0]}),
        second(**{name: value for name, value in given.items() if name in names[1]}),
    )
