"""Sorts the keyword arguments of a client into its settings objects."""

from __future__ import annotations

import difflib
from typing import Any

import attrs

from logd.errors import ConfigurationError


def read_settings(given: dict[str, Any], *classes: type[Any]) -> list[Any]:
    """Return one object of each class. Raises ConfigurationError for an unknown name or a value not allowed."""
    names = [{field.name for field in attrs.fields(cls)} for cls in classes]
    known = sorted(set().union(*names))
    for name, value in given.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            secret = any("pass" in each.lower() for each in (name, *close))  # also under a wrong name
            shown = "..." if secret else repr(value)
            raise ConfigurationError(f"{name} = {shown}: no such setting{hint} Allowed are: {', '.join(known)}")
    return [
        cls(**{name: value for name, value in given.items() if name in mine})
        for cls, mine in zip(classes, names, strict=True)
    ]
