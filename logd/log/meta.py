"""Who a data directory belongs to, and the lock that lets one process at a time use it.

{"format": 1, "broker_id": 0, "instance": "<uuid>"}       one line of JSON, written once
"""

from __future__ import annotations

import json
from collections.abc import Callable

from attrs import frozen

from logd.errors import DataDirectoryError
from logd.interfaces import IFile, IFileOperations
from logd.log.names import META, TOPICS, folder_partition, is_deleted_name, join

FORMAT = 1
_LIMIT = 4096


@frozen
class Meta:
    """The identity of a data directory; ``instance`` tells it from every other, whatever its broker id."""

    broker_id: int
    instance: str

    def encode(self) -> bytes:
        """Return the file's content."""
        return json.dumps({"format": FORMAT, "broker_id": self.broker_id, "instance": self.instance}).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Meta:
        """Read the file's content; raise ValueError, and DataDirectoryError for another format."""
        value = json.loads(data)
        try:
            found = value["format"]
            if found == FORMAT:
                return cls(int(value["broker_id"]), str(value["instance"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{error!r} in {value!r}") from error
        raise DataDirectoryError(f"it says format {found!r}; this release of logd knows format {FORMAT} only")


def lock_directory(files: IFileOperations, path: str) -> IFile:
    """Lock the data directory until the answer is closed or the process ends; raise DataDirectoryError."""
    try:
        return files.lock(join(path, META))
    except BlockingIOError as error:
        raise DataDirectoryError(
            f"data directory {path} is in use by another process: "
            "stop that broker, or give this one a directory of its own"
        ) from error
    except OSError as error:
        raise DataDirectoryError(f"data directory {path} cannot be used: {error}") from error


def _is_ours(name: str) -> bool:
    return name == TOPICS or folder_partition(name) is not None or is_deleted_name(name)


def read_or_make_meta(
    files: IFileOperations, path: str, lock: IFile, broker_id: int | None, new_instance: Callable[[], str]
) -> Meta:
    """Return the directory's identity; give it one when it has none yet: the caller syncs the directory. Blocks.

    ``broker_id`` None: the one it has, else 0. Raises DataDirectoryError when it belongs to another broker.
    """
    try:
        meta = Meta.decode(lock.read_at(0, _LIMIT))
    except ValueError as error:
        # Written in place, because the lock is on this very file: a loss of power may leave a part of it. But then
        # nothing else of ours is there yet, for this file is synced before anything else is made. Others may have
        # something there: a new file system comes with its lost+found.
        if any(map(_is_ours, files.list(path))):
            raise DataDirectoryError(
                f"{join(path, META)} is damaged ({error}): if {path} is a data directory of logd, write there "
                + Meta(broker_id or 0, new_instance()).encode().decode()
            ) from error
        meta = Meta(broker_id or 0, new_instance())
        lock.truncate(0)
        lock.append([meta.encode()])
    except DataDirectoryError as error:
        raise DataDirectoryError(f"{join(path, META)}: {error}") from error
    if broker_id is not None and broker_id != meta.broker_id:
        raise DataDirectoryError(
            f"data directory {path} belongs to broker {meta.broker_id}, not {broker_id}: "
            f"start with --id {meta.broker_id}, or give broker {broker_id} a directory of its own"
        )
    # Also when it was there: who wrote it may have been killed before this.
    lock.sync_data()
    return meta
