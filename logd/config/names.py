"""The error for an unknown setting, with suggestions."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from logd.errors import ConfigurationError


def unknown(name: str, known: Iterable[str]) -> ConfigurationError:
    """Return the error for ``name``, with similar names, or with all names if none is similar."""
    names = sorted(known)
    inside = [each for each in names if each.startswith(f"{name}.")]
    near = inside or get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return ConfigurationError(f"there is no setting {name!r}; did you mean {' or '.join(near)}?")
    return ConfigurationError(f"there is no setting {name!r}; allowed are {', '.join(names)}")
