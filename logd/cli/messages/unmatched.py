"""Tells why a FILE matches nothing: no such file, a folder, no permission, or nothing but what is left alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from glob import has_magic, iglob

from logd.collect.rotation.names import is_compressed

#: Seconds between two notices of the same FILE.
REMIND_SECONDS = 600.0


class Unmatched:
    """The FILEs that match nothing at the moment, told at once and then now and then. Looks at the local disk."""

    def __init__(self, patterns: Sequence[str], excluded: Callable[[str], bool]) -> None:
        self._patterns = patterns
        self._excluded = excluded
        self._next: float | None = None

    def notices(self, now: float) -> list[str]:
        """Return a line for each FILE without a match, when it is time to say so. ``now`` in seconds. May block."""
        if self._next is not None and now < self._next:
            return []
        self._next = now + REMIND_SECONDS
        return [reason for pattern in self._patterns if (reason := explain(pattern, self._excluded))]


def explain(pattern: str, excluded: Callable[[str], bool]) -> str:
    """Return why a pattern matches no file that would be read, empty when it matches one."""
    if not has_magic(pattern) or os.path.lexists(pattern):
        return _explain_name(pattern, excluded)
    matches = list(iglob(pattern, recursive=True))
    files = [path for path in matches if os.path.isfile(path)]
    if any(not is_compressed(path) and not excluded(path) for path in files):
        return ""
    if files:
        return f"all that {pattern} matches is compressed or excluded"
    if matches:
        return f"{pattern} matches folders and no file: to read the files in them give {pattern.rstrip('/')}/*"
    return _explain_folder(pattern) or f"no file matches {pattern}"


def _explain_name(path: str, excluded: Callable[[str], bool]) -> str:
    try:
        os.stat(path)
    except PermissionError:
        return f"there may be a file {path}, but its folder may not be looked into: permission denied"
    except FileNotFoundError:
        return (
            f"{path} is a link to a file that does not exist" if os.path.lexists(path) else f"there is no file {path}"
        )
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror}"
    if os.path.isdir(path):
        return f"{path} is a folder, and not a file: to read the files in it give {path.rstrip('/')}/*"
    if not os.path.isfile(path):
        return f"{path} is no regular file: `logd produce` reads pipes and devices"
    if is_compressed(path) or excluded(path):
        return f"{path} is {'compressed' if is_compressed(path) else 'excluded'}, and left alone"
    if not os.access(path, os.R_OK):
        return f"{path} cannot be read: permission denied"
    return ""


def _explain_folder(pattern: str) -> str:
    """Return what is wrong with the folder that a pattern begins with, empty when it can be listed."""
    folder = os.path.dirname(pattern)
    while has_magic(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return f"no file matches {pattern}: there is no folder {folder}"
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"no file can be found for {pattern}: the folder {folder} may not be listed: permission denied"
    return ""
