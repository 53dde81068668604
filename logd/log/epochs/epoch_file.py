"""The epoch file of a replicated partition, durable before the first entry of an epoch is acknowledged.

    logd-epochs 1\\n
    <epoch> <start>\\n           for each epoch that the log has entries of
    <crc, 8 hex digits>\\n       of all that precedes it

A crash can leave an epoch behind the log's end: its first entry was not written, or was lost unsynced. Nothing of such
an epoch is in this log, but another replica may have entries of it: a broker never leads in it again.

``epochs.copy`` has the same content, but is not synced. It is read only where the file is damaged, or gone though there
is a copy: the marks in the log tell the rest, but not the epochs whose marks were deleted with the log's beginning.
"""

from __future__ import annotations

from zlib import crc32

from logd.interfaces import IFileOperations
from logd.log.disk.atomic import read_file, replace_file
from logd.log.disk.names import EPOCHS, EPOCHS_COPY, join
from logd.log.epochs.history import EpochHistory, EpochStart

_FIRST_LINE = "logd-epochs 1\n"
#: Bytes: a million changes of the leader, a thousand times what a log sees.
_LIMIT = 32 << 20
_LARGEST_EPOCH = (1 << 31) - 1


def encode_epochs(history: EpochHistory) -> bytes:
    """Return the content of the file."""
    text = _FIRST_LINE + "".join([f"{epoch} {start}\n" for epoch, start in history.starts])
    return (text + f"{crc32(text.encode()):08x}\n").encode()


def decode_epochs(data: bytes) -> EpochHistory:
    """Return the history in a file's content; raise ValueError if ``encode_epochs`` would not return that content."""
    lines = data.split(b"\n")
    starts = []
    for line in lines[1:-2]:
        epoch, _, start = line.partition(b" ")
        if not (epoch.isdigit() and start.isdigit() and len(line) <= 32):
            raise ValueError("a damaged epoch file")
        starts.append(EpochStart(int(epoch), int(start)))
    history = EpochHistory(tuple(starts))
    rises = all(one.epoch < other.epoch and one.start < other.start for one, other in zip(starts, starts[1:]))  # noqa: B905, RUF007
    if encode_epochs(history) != data or not rises or history.latest > _LARGEST_EPOCH:
        raise ValueError("a damaged epoch file")
    return history


def read_epochs(files: IFileOperations, folder: str) -> EpochHistory:
    """Return what the epoch file says, no epochs if there was none yet. The last ones may begin behind the log's end.

    Blocks. Raises OSError, and ValueError for a file that is damaged, or gone: its copy is there.
    """
    data = read_file(files, join(folder, EPOCHS), _LIMIT)
    if data is None and files.exists(join(folder, EPOCHS_COPY)):
        raise ValueError("no epoch file")
    return EpochHistory() if data is None else decode_epochs(data)


def write_epochs(files: IFileOperations, folder: str, history: EpochHistory) -> None:
    """Replace the epoch file, durably on return, and its copy. Blocks; raises OSError. One call at a time for a log."""
    content = encode_epochs(history)
    replace_file(files, folder, EPOCHS, content)
    path = join(folder, EPOCHS_COPY)
    if files.exists(path):
        files.remove(path)
    file = files.open(path, create=True)
    try:
        file.append([content])
    finally:
        file.close()


def read_copy(files: IFileOperations, folder: str) -> EpochHistory:
    """Return what the copy says, no epochs if there is none or it is damaged. Blocks; raises OSError."""
    try:
        data = read_file(files, join(folder, EPOCHS_COPY), _LIMIT)
        return EpochHistory() if data is None else decode_epochs(data)
    except ValueError:
        return EpochHistory()
