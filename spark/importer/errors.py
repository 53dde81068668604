"""Errors that end an import before anything has become visible, each with its own exit status."""

from __future__ import annotations

from logd.errors import LogdError


class ImportFailed(LogdError):
    """The run could not be loaded or checked; nothing of it is visible, and the next run loads it again."""


class TargetError(LogdError):
    """The target directory is damaged, unusable, or not written by imports; the message names the file."""


class RunLost(LogdError):
    """Another import made the run first, or is running in the target; this import left nothing behind."""
