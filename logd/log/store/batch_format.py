"""The format that a data directory needs before batches are appended in it, raised once in its life."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.errors import StorageFull, UnknownError, WireError
from logd.interfaces import IThreads
from logd.log.disk.errors import NO_ROOM
from logd.log.store.locked_directory import LockedDirectory
from logd.log.store.meta import BATCH_FORMAT

#: Called with the error to answer with, or None if batches may be appended.
Raised = Callable[[WireError | None], None]


@define(eq=False)
class BatchFormat:
    """Tells whether batches may be appended, and raises the directory's format for the first one. Owner thread only.

    A directory without batches keeps format 1, so that an older release still opens it. But an older release would cut
    a log at its first batch. So format 2, which it refuses, must be on the disk before any batch is appended.
    """

    _directory: LockedDirectory
    _threads: IThreads
    #: True once batches may be appended.
    ready: bool = field(default=False, init=False)
    _waiting: list[Raised] = field(factory=list, init=False)

    def opened(self) -> None:
        """Take over the format of the directory, which was just locked."""
        self.ready = self._directory.meta.format >= BATCH_FORMAT

    def make_ready(self, done: Raised) -> None:
        """Raise the format on a thread, then call ``done``; calls at the same time share the write.

        ``done`` gets StorageFull or UnknownError if the disk does not take it; the call can be repeated.
        """
        self._waiting.append(done)
        if len(self._waiting) == 1:
            self._threads.run(lambda: self._directory.raise_format(BATCH_FORMAT), self._raised)

    def _raised(self, _: None, error: BaseException | None) -> None:
        self.ready = error is None
        waiting, self._waiting = self._waiting, []
        refusal = None if error is None else _refusal(error)
        for done in waiting:
            done(refusal)


def _refusal(error: BaseException) -> WireError:
    text = (
        f"batches cannot be appended before the format of the data directory is raised to {BATCH_FORMAT}, which "
        f"failed: {error}"
    )
    return StorageFull(text) if isinstance(error, OSError) and error.errno in NO_ROOM else UnknownError(text)
