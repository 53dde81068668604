"""Questions to a person at a terminal; elsewhere the answer is no, and it is said which option would say yes."""

from __future__ import annotations

import sys

import click

from logd.cli.running import complain


def is_person_there() -> bool:
    """Whether somebody can answer."""
    return sys.stdin.isatty()


def ask(question: str, option: str) -> bool:
    """Ask, when standard input is a terminal; ``option`` is what a script says instead."""
    if is_person_there():
        return click.confirm(question, err=True)
    complain(f"{question} Nobody to ask, so nothing is done: say {option}")
    return False
