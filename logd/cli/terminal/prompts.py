"""Asks for confirmation at a terminal; without one the answer is no, and the option that confirms is named."""

from __future__ import annotations

import signal
import sys

import click

from logd.cli.terminal.exits import complain
from logd.errors import LogdError


def is_person_there() -> bool:
    """True when standard input is a terminal."""
    return sys.stdin.isatty()


def confirm(question: str) -> bool:
    """Ask, without checking for a terminal. Raises click.Abort on Ctrl-C and at the end of the input.

    The command's own signal handler schedules a call on the reactor, which does not run while a question waits.
    Therefore Python's default handler is installed for Ctrl-C meanwhile.
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
    """Ask if standard input is a terminal, else return False; ``option`` is the option for scripts."""
    if is_person_there():
        return confirm(question)
    complain(f"{question} Standard input is not a terminal, so nothing was done: give {option}")
    return False


def agree(question: str) -> None:
    """Ask before an action that cannot be undone.

    Raises LogdError when the answer is no, and when standard input is not a terminal: scripts use --yes instead.
    """
    if not is_person_there():
        raise LogdError(f"{question} Standard input is not a terminal, so nothing was done: give --yes")
    if not confirm(question):
        raise LogdError("nothing was done")
