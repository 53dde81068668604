"""The resources that all partitions of a broker share: disk, clock, open files, the flusher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from logd.interfaces import Clock, IFileOperations
from logd.log.disk.open_files import OpenFiles
from logd.log.flusher import Flusher
from logd.log.open_writers import OpenWriters


@frozen
class PartitionContext:
    """The shared resources that are handed to every partition log."""

    files: IFileOperations
    open_files: OpenFiles
    open_writers: OpenWriters
    clock: Clock
    #: The time of day, in seconds since the epoch.
    wall: Callable[[], float]
    flusher: Flusher
    #: Logs a line for operators: ``report(format, **fields)``, with the fields named in the format.
    report: Callable[..., None]
    #: Called with a PartitionLog when its flushed end has moved.
    flushed: Callable[[Any], None]
