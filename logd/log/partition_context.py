"""The things that all partitions of a broker share: disk, clock, open files, the flusher."""

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
    """What comes into every partition from outside."""

    files: IFileOperations
    open_files: OpenFiles
    open_writers: OpenWriters
    clock: Clock
    #: The time of day, in seconds since the epoch.
    wall: Callable[[], float]
    flusher: Flusher
    #: Called as ``report(format, **fields)`` with what an operator should know; fields are named in the format.
    report: Callable[..., None]
    #: Called with a log, a PartitionLog, of which more is flushed.
    flushed: Callable[[Any], None]
