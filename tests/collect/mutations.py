"""Faults put into the handling of absences by `logd collect`, each of which random lives have to find."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from logd.collect.rotation.losses import Losses
from logd.collect.rotation.siblings import RotatedFiles, Sibling


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


#: All faults, by name.
MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each
    for each in (know_files_by_their_inodes_alone, see_the_newest_rotation_alone, say_nothing_of_losses)
}
