"""Questions to a person at a terminal; elsewhere the answer is no, and it is said which option would say yes."""

from __future__ import annotations

import signal
import sys

import click

from logd.cli.terminal.exits import complain
from logd.errors import LogdError


def is_person_there() -> bool:
    """Whether somebody can answer."""
    return sys.stdin.isatty()


def confirm(question: str) -> bool:
    """Ask, whoever is there. Raises click.Abort on Ctrl-C and at the end of the input.

    A command's own handler of signals leaves a note for the reactor's next turn, and while a question waits there is
    none: so Ctrl-C is Python's here.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def ask(question: str, option: str) -> bool:
    """Ask, when standard input is a terminal; ``option`` is what a script says instead."""
    if is_person_there():
        return confirm(question)
    complain(f"{question} Nobody to ask, so nothing is done: say {option}")
    return False


def agree(question: str) -> None:
    """Ask before something that cannot be undone.

    Raises LogdError on a no, and where standard input is no terminal: a script says --yes.
    """
    if not is_person_there():
        raise LogdError(f"{question} Nobody to ask, so nothing is done: say --yes")
    if not confirm(question):
        raise LogdError("nothing was done")
