"""A check of every read of a transfer: the disks of a simulation can be read, so none may fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from logd.net.transfer import _Transfer
from tests.simulation.violation import Violation


@contextmanager
def transfers_watched() -> Iterator[None]:
    """Raise Violation in a transfer that calls a place unreadable."""

    def unreadable(transfer: _Transfer, position: int, error: BaseException) -> None:
        raise Violation("a position on a healthy disk was called unreadable", transfer._file.path, position, error)

    with mock.patch.object(_Transfer, "_unreadable", unreadable):
        yield
