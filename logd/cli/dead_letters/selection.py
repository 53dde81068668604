"""The choice of dead letters by ``--only NAME=VALUE``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import click

from logd.client.dead_letters.letter import DeadLetter

#: The names that ``--only`` knows, and the value of each in a letter.
FIELDS: dict[str, Callable[[DeadLetter], str]] = {
    "topic": lambda letter: letter.origin.topic,
    "partition": lambda letter: str(letter.origin.partition),
    "group": lambda letter: letter.origin.group,
    "kind": lambda letter: letter.kind,
    "error": lambda letter: letter.error,
}

#: The values chosen for each name.
Selection = dict[str, frozenset[str]]


def _parsed(_ctx: click.Context, _option: click.Parameter, given: Sequence[str]) -> Selection:
    found: dict[str, frozenset[str]] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or name not in FIELDS:
            raise click.BadParameter(f"{each!r} is not NAME=VALUE with a NAME of {', '.join(FIELDS)}")
        found[name] = found.get(name, frozenset()) | {value}
    return found


def only_option(command: Any) -> Any:
    """--only, which may be repeated."""
    return click.option(
        "--only",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_parsed,
        help=f"Only letters with this {', '.join(FIELDS)}; may be repeated: values of one name are alternatives.",
    )(command)


def is_chosen(letter: DeadLetter, selection: Selection) -> bool:
    """Return whether a letter has one of the values of each name."""
    return all(FIELDS[name](letter) in values for name, values in selection.items())


def digest(selection: Selection) -> str:
    """Return a short name for a selection, the same for the same choice; empty for no selection."""
    if not selection:
        return ""
    text = "\n".join(f"{name}={value}" for name in sorted(selection) for value in sorted(selection[name]))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
