"""The search for the marks of epochs in a log whose epoch file is damaged."""

from __future__ import annotations

from logd.errors import LogdError
from logd.interfaces import IFileOperations
from logd.log.disk.names import join, segment_name
from logd.log.epochs.epoch_file import read_copy
from logd.log.epochs.history import EpochHistory
from logd.log.epochs.mark import MARK_BYTES, MARK_OPENING, read_epoch_mark
from logd.log.index import lookup

_CHUNK_BYTES = 1 << 20


def recover_epochs(files: IFileOperations, snapshot: lookup.Snapshot) -> EpochHistory:
    """Return the epochs of a log without its epoch file: by the marks, and by the copy before the first one of them.

    Blocks; raises OSError.
    """
    found, copy = find_epochs(files, snapshot), read_copy(files, snapshot.folder).cut(snapshot.end)
    if not found.starts:
        return copy
    first = found.starts[0]
    earlier = [each for each in copy.starts if each.epoch < first.epoch and each.start < first.start]
    return EpochHistory((*earlier, *found.starts))


def find_epochs(files: IFileOperations, snapshot: lookup.Snapshot) -> EpochHistory:
    """Return the epochs whose marks are in a log. Blocks; raises OSError.

    Bytes of a mark inside a message do not count: a mark begins where an entry begins.
    """
    history = EpochHistory()
    ends = [*snapshot.segments.starts[1:], snapshot.end]
    for start, end in zip(snapshot.segments.starts, ends, strict=True):
        file = files.open_for_reading(join(snapshot.folder, segment_name(start)))
        try:
            at = max(snapshot.start, start)
            while at < end:
                data = file.read_at(at - start, min(_CHUNK_BYTES + MARK_BYTES, end - at))
                found = data.find(MARK_OPENING)
                while 0 <= found < _CHUNK_BYTES:
                    mark = read_epoch_mark(data[found : found + MARK_BYTES])
                    if mark is not None and _is_boundary(snapshot, at + found) and mark.epoch > history.latest:
                        history = history.begun(mark.epoch, at + found)
                    found = data.find(MARK_OPENING, found + 1)
                at += _CHUNK_BYTES
        finally:
            file.close()
    return history


def _is_boundary(snapshot: lookup.Snapshot, position: int) -> bool:
    try:
        return lookup.find_boundary(snapshot, position) == position
    except LogdError:
        return False
