"""A group of commands that imports only the command in use, so that help and every start are quick."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import ClassVar

import click
from attrs import frozen

from logd.unused_tls import without_tls

#: The key in a context's ``meta`` for whether the commands need no TLS.
PLAIN = "logd.plain"


@frozen
class Lazy:
    """A command that is not imported yet: ``summary`` is its line in the group's help, ``load`` imports it."""

    summary: str
    load: Callable[[], click.Command]


class LazyGroup(click.Group):
    """A group whose commands are in ``lazy``, by their names, in the order of the help."""

    lazy: ClassVar[Mapping[str, Lazy]] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands without importing any."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of this name, or None if there is none."""
        found = self.lazy.get(cmd_name)
        if found is None:
            return None
        enabled = gc.isenabled()
        gc.disable()  # little of what is imported is garbage, and to look for that takes a tenth of the time
        try:
            with without_tls() if ctx.meta.get(PLAIN) else nullcontext():
                return found.load()
        finally:
            if enabled:
                gc.enable()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one line for each command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in self.lazy.items()])
