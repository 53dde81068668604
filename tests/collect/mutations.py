"""Faults put into the handling of rotations by `logd collect`, each of which random lives have to find."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from logd.collect import file_tracker, read_mark
from logd.collect.file_tracker import FileTracker
from logd.collect.files import OpenFile
from logd.collect.read_mark import START, ReadMark
from logd.collect.rotation.losses import Losses
from logd.collect.rotation.siblings import RotatedFiles, Sibling
from logd.collect.source import SourceFile


def know_files_by_their_inodes_alone() -> AbstractContextManager[Any]:
    """Look for no rotated files but those that an earlier run has followed."""
    return mock.patch.object(RotatedFiles, "find", lambda rotated, names, everywhere: {})


def see_the_newest_rotation_alone() -> AbstractContextManager[Any]:
    """See only the last of several rotations in an absence."""
    unknown = RotatedFiles.unknown

    def newest(rotated: RotatedFiles, *arguments: Any) -> dict[str, list[Sibling]]:
        return {name: siblings[-1:] for name, siblings in unknown(rotated, *arguments).items()}

    return mock.patch.object(RotatedFiles, "unknown", newest)


def say_nothing_of_losses() -> AbstractContextManager[Any]:
    """Report no lost lines."""
    return mock.patch.object(Losses, "add", lambda losses, notice, count=0: None)


def identify_files_by_what_was_read() -> AbstractContextManager[Any]:
    """Compare no more of a file's head than was read, be it a line of some bytes."""
    return mock.patch.object(
        SourceFile, "known", property(lambda source: source.mark if source.mark.position else source.birth)
    )


def open_new_files_by_their_first_name() -> AbstractContextManager[Any]:
    """Do not look where a file is that was renamed since it was listed."""
    return mock.patch.object(FileTracker, "_find_again", lambda tracker, source: None)


def see_head_and_size_apart() -> AbstractContextManager[Any]:
    """Take the head of one content and the size of another for those of one."""

    def apart(file: OpenFile) -> tuple[ReadMark, int]:
        size = file.seen().size
        head = file.read(0, read_mark.HEAD_BYTES)
        return (ReadMark(0, len(head), read_mark.checksum(head)) if head else START), size

    return mock.patch.object(file_tracker, "seen_at_once", apart)


#: Faults in the handling of absences, by name.
MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each
    for each in (know_files_by_their_inodes_alone, see_the_newest_rotation_alone, say_nothing_of_losses)
}
#: Faults in the handling of what happens while the collector looks: the first seed that finds each, by name.
INTERLEAVED: dict[str, tuple[int, Callable[[], AbstractContextManager[Any]]]] = {
    each.__name__: (seed, each)
    for seed, each in (
        (1180, identify_files_by_what_was_read),
        (11, open_new_files_by_their_first_name),
        (247, see_head_and_size_apart),
    )
}
