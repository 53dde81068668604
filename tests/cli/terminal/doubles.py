"""A stream that a command takes for a terminal."""

from __future__ import annotations

import io


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True
