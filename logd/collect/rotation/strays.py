"""Finds the sources that no pattern finds: files renamed in their folders, and those of folders that cannot be read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from os.path import dirname

from logd.collect.files import Files, Identity, Seen
from logd.collect.rotation.names import is_compressed
from logd.collect.source import SourceFile


def strays(files: Files, sources: Collection[SourceFile], found: Mapping[Identity, Seen]) -> dict[Identity, Seen]:
    """Return the sources that are not ``found``, and are in their folders or may be."""
    there: dict[Identity, Seen] = {}
    for _ in range(2):  # a file renamed during a listing may be missing from it, but not from the next
        missing: dict[str, set[int]] = {}
        for source in sources:
            if source.identity not in found and source.identity not in there:
                missing.setdefault(dirname(source.path), set()).add(source.identity[1])
        for folder, inodes in missing.items():
            for seen in files.in_folder(folder, lambda _, inode, inodes=inodes: inode in inodes):  # type: ignore[misc]  # a default binds it now
                if not is_compressed(seen.path):
                    there[seen.identity] = seen
    for source in sources:
        if source.identity not in found and source.identity not in there:
            hidden = _hidden(files, source)
            if hidden is not None:
                there[source.identity] = hidden
    return there


def _hidden(files: Files, source: SourceFile) -> Seen | None:
    """Return a source that no listing has, but its path; as it was if that cannot be told; None if it is gone.

    A folder that cannot be listed looks like an empty one: no permission, no descriptors left, a disk that fails.
    """
    try:
        seen = files.at(source.path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        if source.file is not None:
            with suppress(OSError):
                return source.file.seen()._replace(path=source.path)
        return Seen(source.path, *source.identity, max(source.size, source.sound_size), source.modified)
    return seen if seen.identity == source.identity and not is_compressed(seen.path) else None
