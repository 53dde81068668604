"""Why a partition cannot be served, in words for whoever has to do something about it: what, where, and the remedy."""

from __future__ import annotations

from logd.errors import LogdError


def cannot_start(folder: str, error: OSError) -> LogdError:
    """What a start found cannot be read, or not be made sound."""
    return _because(
        f"{folder} cannot be served: {error}. See to the disk, or move away what is in the way there; then restart the "
        "broker (what is lost of a segment `logd repair` fills with a gap, so that the rest is served)",
        error,
    )


def not_flushed(folder: str, error: BaseException) -> LogdError:
    """A sync failed: the kernel may call pages clean that the disk never got, so it is not tried again."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return removed(error.filename)
    return _because(
        f"{folder} could not be flushed: {error}. See to the disk; then restart the broker, which serves what the disk "
        "really has",
        error,
    )


def removed(path: str) -> LogdError:
    """The file of a last segment has lost its name while the broker appended to it."""
    return LogdError(
        f"{path} was removed while the broker wrote to it: what was in it is lost, and nothing more is appended. Put "
        "the file back, if there is a copy; then `logd repair --broker` makes gaps in the place of what is lost, and "
        "the partition is served again"
    )


def not_appended(folder: str, error: OSError, torn: bool) -> LogdError:
    """An append failed, and not for want of room; ``torn``: a part of it is in the file."""
    left = ", and what was written of it could not be taken back" if torn else ""
    return _because(f"an append to {folder} failed: {error}{left}. See to the disk; then restart the broker", error)


def is_truncated(folder: str, position: int) -> LogdError:
    """A log is being cut: it is served again in a moment."""
    return LogdError(f"{folder} is being cut at {position}: try again soon")


def not_truncated(folder: str, position: int, error: BaseException) -> LogdError:
    """A truncation failed half-way; the log ends at the position or behind it."""
    return _because(
        f"{folder} could not be cut at {position}: {error}. See to the disk; then restart the broker", error
    )


def _because(text: str, error: BaseException) -> LogdError:
    reason = LogdError(text)
    reason.__cause__ = error
    return reason
