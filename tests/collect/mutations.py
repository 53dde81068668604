"""Ways to break on purpose what `logd collect` finds out about its absence, each of which random lives have to find."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from logd.collect.rotation.losses import Losses
from logd.collect.rotation.siblings import RotatedFiles, Sibling


def know_files_by_their_inodes_alone() -> AbstractContextManager[Any]:
    """Rotated files that no earlier run has followed are not looked for."""
    return mock.patch.object(RotatedFiles, "find", lambda rotated, names, everywhere: {})


def see_the_newest_rotation_alone() -> AbstractContextManager[Any]:
    """Of several rotations in an absence the last one is seen."""
    unknown = RotatedFiles.unknown

    def newest(rotated: RotatedFiles, *arguments: Any) -> dict[str, list[Sibling]]:
        return {name: siblings[-1:] for name, siblings in unknown(rotated, *arguments).items()}

    return mock.patch.object(RotatedFiles, "unknown", newest)


def say_nothing_of_losses() -> AbstractContextManager[Any]:
    """Lines that are gone are not told of."""
    return mock.patch.object(Losses, "add", lambda losses, notice, count=0: None)


#: All of them, by their names.
MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each
    for each in (know_files_by_their_inodes_alone, see_the_newest_rotation_alone, say_nothing_of_losses)
}
