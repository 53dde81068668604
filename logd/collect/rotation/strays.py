"""Finds files that no listing has: renamed in their folders, or in folders that cannot be read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from os.path import dirname

from logd.collect.files import Files, Identity, Seen
from logd.collect.rotation.names import is_compressed
from logd.collect.source import SourceFile


def strays(files: Files, sources: Collection[SourceFile], found: Mapping[Identity, Seen]) -> dict[Identity, Seen]:
    """Return the sources that no pattern found but that still exist, or may exist."""
    there: dict[Identity, Seen] = {}
    for _ in range(2):  # a file renamed during a listing may be missing from it, but not from the next
        missing: dict[str, set[int]] = {}
        for source in sources:
            if source.identity not in found and source.identity not in there:
                missing.setdefault(dirname(source.path), set()).add(source.identity[1])
        for folder, inodes in missing.items():
            for seen in files.in_folder(folder, lambda _, inode, inodes=inodes: inode in inodes) or ():  # type: ignore[misc]  # a default binds it now
                if not is_compressed(seen.path):
                    there[seen.identity] = seen
    for source in sources:
        if source.identity not in found and source.identity not in there:
            hidden = _hidden(files, source)
            if hidden is not None:
                there[source.identity] = hidden
    return there


def still_there(files: Files, before: Seen) -> Seen | None:
    """Return the file at the path of ``before`` if it is the same file; None if that file is gone.

    ``before`` itself is returned if its path cannot be looked up.
    """
    try:
        seen = files.at(before.path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return before
    return seen if seen.identity == before.identity else None


def is_hidden(files: Files, before: Seen) -> bool:
    """Return True if a file that no pattern found is in a folder that cannot be listed, or may be."""
    seen = still_there(files, before)
    return seen is before or (seen is not None and files.in_folder(dirname(before.path), lambda *_: False) is None)


def _hidden(files: Files, source: SourceFile) -> Seen | None:
    """Return the file at a source's path if it is the source's; None if the file is gone.

    The source as last seen is returned if its path cannot be looked up.
    """
    before = Seen(source.path, *source.identity, max(source.size, source.sound_size), source.modified)
    seen = still_there(files, before)
    if seen is before and source.file is not None:
        with suppress(OSError):
            return source.file.seen()._replace(path=source.path)
    return seen if seen is not None and not is_compressed(seen.path) else None
