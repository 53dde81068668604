"""Explains why a FILE matches nothing: it is missing, a folder, not permitted, compressed or excluded."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from glob import has_magic

from logd.collect.disk import matches
from logd.collect.rotation.names import is_compressed

#: Seconds between two notices of the same FILE.
REMIND_SECONDS = 600.0


class Unmatched:
    """Reports the FILEs that match nothing on the local disk, at once and then every REMIND_SECONDS."""

    def __init__(self, patterns: Sequence[str], excluded: Callable[[str], bool]) -> None:
        self._patterns = patterns
        self._excluded = excluded
        self._next: float | None = None

    def notices(self, now: float) -> list[str]:
        """Return a line for each FILE without a match, if a notice is due. ``now`` is in seconds. May block."""
        if self._next is not None and now < self._next:
            return []
        self._next = now + REMIND_SECONDS
        return [reason for pattern in self._patterns if (reason := explain(pattern, self._excluded))]


def explain(pattern: str, excluded: Callable[[str], bool]) -> str:
    """Return the reason why a pattern matches no readable file; empty when it matches one."""
    if not has_magic(pattern) or os.path.lexists(pattern):
        return _explain_name(pattern, excluded)
    found = set(matches(pattern))
    files = [path for path in found if os.path.isfile(path)]
    if any(not is_compressed(path) and not excluded(path) for path in files):
        return ""
    if files:
        return f"all that {pattern} matches is compressed or excluded"
    if found:
        return f"{pattern} matches only folders: to read the files in them, give {pattern.rstrip('/')}/*"
    return _explain_folder(pattern) or f"no file matches {pattern}"


def _explain_name(path: str, excluded: Callable[[str], bool]) -> str:
    try:
        os.stat(path)
    except PermissionError:
        return f"{path} may exist, but its folder cannot be searched: permission denied"
    except FileNotFoundError:
        return (
            f"{path} is a link to a file that does not exist" if os.path.lexists(path) else f"there is no file {path}"
        )
    except OSError as error:
        return f"{path} cannot be accessed: {error.strerror}"
    if os.path.isdir(path):
        return f"{path} is a folder: to read the files in it, give {path.rstrip('/')}/*"
    if not os.path.isfile(path):
        return f"{path} is not a regular file: use `logd produce` for pipes and devices"
    if is_compressed(path) or excluded(path):
        return f"{path} is {'compressed' if is_compressed(path) else 'excluded'}, and not read"
    if not os.access(path, os.R_OK):
        return f"{path} cannot be read: permission denied"
    return ""


def _explain_folder(pattern: str) -> str:
    """Return the problem with the folder that a pattern begins with; empty when it can be listed."""
    folder = os.path.dirname(pattern)
    while has_magic(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return f"no file matches {pattern}: there is no folder {folder}"
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"no file can be found for {pattern}: folder {folder} cannot be listed: permission denied"
    return ""
