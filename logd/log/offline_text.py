"""The errors that take a partition offline, by ``PartitionLog.go_offline``, or that keep it offline at a start.

Each names the file or folder, the cause and the remedy for operators.
"""

from __future__ import annotations

from logd.errors import LogdError
from logd.log.disk.errors import is_shortage


def cannot_start(folder: str, error: OSError) -> LogdError:
    """Return the error for a folder that cannot be read or recovered at a start."""
    return _because(
        f"{folder} cannot be served: {error}. Check the disk, or move away the file that is in the way; then restart "
        "the broker (`logd repair` fills the lost part of a segment with a gap, so that the rest is served)",
        error,
    )


def not_flushed(folder: str, error: BaseException) -> LogdError:
    """Return the error for a failed sync, which is not retried: the kernel may call unwritten pages clean."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return removed(error.filename)
    return _because(
        f"{folder} could not be flushed: {error}. Check the disk; then restart the broker, which serves what is really "
        "on the disk",
        error,
    )


def removed(path: str) -> LogdError:
    """Return the error for a last segment whose file was removed while the broker appended to it."""
    return LogdError(
        f"{path} was removed while the broker wrote to it: its messages are lost, and nothing more is appended. Put "
        "the file back, if there is a copy; then run `logd repair --broker`, which fills what is lost with gaps and "
        "serves the partition again"
    )


def not_appended(folder: str, error: OSError, torn: bool) -> LogdError:
    """Return the error for an append that failed for another reason than a full disk.

    ``torn``: a part of the append is in the file.
    """
    left = ", and the part that was written could not be removed again" if torn else ""
    return _because(f"an append to {folder} failed: {error}{left}. Check the disk; then restart the broker", error)


def is_truncated(folder: str, position: int) -> LogdError:
    """Return the error for a log that is being truncated and will be served again in a moment."""
    return LogdError(f"{folder} is being truncated to {position}: try again soon")


def is_restarted(folder: str, position: int) -> LogdError:
    """Return the error for a replica that drops what it has, and begins again in a moment."""
    return LogdError(f"{folder} begins again at {position}, where its leader's log has begun: try again soon")


class NotRestarted(LogdError):
    """A replica that is to drop what it has could not begin again. Nobody counts on it, so that is tried again."""


def not_restarted(folder: str, position: int, error: BaseException) -> LogdError:
    """Return the error for a replica that could not begin again, as on a full disk."""
    return NotRestarted(
        f"{folder} could not begin again at {position}, where its leader's log has begun: {error}. It is tried again"
    )


def not_truncated(folder: str, position: int, error: BaseException) -> LogdError:
    """Return the error for a truncation that failed half-way: the log ends at the position or behind it."""
    then = "It is tried again" if is_shortage(error) else "Check the disk; then restart the broker"
    return _because(f"{folder} could not be truncated to {position}: {error}. {then}", error)


def is_whole(error: BaseException | None) -> bool:
    """Return whether the files of an offline log have all that was flushed: the disk has failed; nothing is lost."""
    return error is not None and isinstance(error.__cause__, OSError)


def _because(text: str, error: BaseException) -> LogdError:
    reason = LogdError(text)
    reason.__cause__ = error
    return reason
