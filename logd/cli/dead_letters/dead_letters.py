"""``logd dead-letters``: the group of the commands for dead letters."""

from __future__ import annotations

import click

from logd.cli.dead_letters.listing import list_
from logd.cli.dead_letters.replay import replay

_EPILOG = """\b
Examples:
  logd dead-letters list clicks.dead
  logd dead-letters list clicks.dead --only error=ValueError --json
  logd dead-letters replay clicks.dead
"""


@click.group("dead-letters", epilog=_EPILOG)
def dead_letters() -> None:
    """List the messages that consumers could not handle, and publish them again.

    A dead letter is a message that stream.handle() or on_corrupt="dead-letter" has put into a topic of its own, with
    headers that tell where it came from and why.
    """


dead_letters.add_command(list_)
dead_letters.add_command(replay)
