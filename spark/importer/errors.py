"""What can end an import without anything having become visible, each with an exit status of its own."""

from __future__ import annotations

from logd.errors import LogdError


class ImportFailed(LogdError):
    """The run could not be loaded or checked; nothing of it is visible, and the next run loads it again."""


class TargetError(LogdError):
    """The target directory is not what an import leaves behind, or cannot be used; the text names the file."""


class RunLost(LogdError):
    """Another import made the run first, or is at work in the target; this one left nothing behind."""
