"""The identity of a data directory, and the lock that lets one process at a time use it.

{"format": 1, "broker_id": 0, "instance": "<uuid>", "check": "<CRC-32 of the other values, 8 hex digits>"}

One line of JSON, in ``meta`` and in ``meta.copy``. A damaged one is rewritten from the other. Directories of earlier
releases have a ``meta`` without a checksum.

The format is 1, or 2 if batches may be among the entries. Releases that know format 1 alone would take a batch for a
torn tail and cut the log there: they refuse a directory of format 2.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from zlib import crc32

from attrs import evolve, frozen

from logd.errors import DataDirectoryError
from logd.interfaces import IFile, IFileOperations
from logd.log.disk.atomic import read_file, replace_file
from logd.log.disk.names import META, META_COPY, TOPICS, folder_partition, is_deleted_name, join

#: The format of a new directory, and the one that batches need.
FIRST_FORMAT = 1
BATCH_FORMAT = 2
_FORMATS = (FIRST_FORMAT, BATCH_FORMAT)
_LIMIT = 512
#: The beginning of the file's content, of whatever format.
_BEGINNING = b'{"format": '


@frozen
class Meta:
    """The identity of a data directory; ``instance`` is unique to it, unlike the broker id."""

    broker_id: int
    instance: str
    format: int = FIRST_FORMAT

    def encode(self) -> bytes:
        """Return the file's content."""
        value = {"format": self.format, "broker_id": self.broker_id, "instance": self.instance}
        return json.dumps({**value, "check": _check(self.format, self.broker_id, self.instance)}).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Meta:
        """Return the identity in a file's content; raise ValueError, and DataDirectoryError for another format."""
        value = json.loads(data)
        try:
            found, broker_id, instance = value["format"], value.get("broker_id"), value.get("instance")
            if value.get("check") not in (None, _check(found, broker_id, instance)):
                raise ValueError("checksum mismatch")
            if type(found) is int and found in _FORMATS:
                return cls(int(value["broker_id"]), str(value["instance"]), found)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{error!r} in {value!r}") from error
        known = " and ".join(map(str, _FORMATS))
        raise DataDirectoryError(f"it says format {found!r}; this release of logd knows the formats {known} only")


def _check(format: object, broker_id: object, instance: object) -> str:  # noqa: A002  # the name in the file
    return f"{crc32(f'{format} {broker_id} {instance}'.encode()):08x}"


def lock_directory(files: IFileOperations, path: str) -> IFile:
    """Lock the data directory until the returned file is closed or the process ends; raise DataDirectoryError."""
    try:
        return files.lock(join(path, META))
    except BlockingIOError as error:
        raise DataDirectoryError(
            f"data directory {path} is in use by another process: "
            "stop that broker, or give this one a directory of its own"
        ) from error
    except NotADirectoryError as error:
        raise DataDirectoryError(
            f"data directory {path} is a file: name a directory, or one that can be made"
        ) from error
    except OSError as error:
        raise DataDirectoryError(f"data directory {path} cannot be used: {error}") from error


def read_or_make_meta(
    files: IFileOperations,
    path: str,
    lock: IFile,
    broker_id: int | None,
    new_instance: Callable[[], str],
    report: Callable[..., None],
) -> Meta:
    """Return the directory's identity, after giving it one if it is new; the caller syncs the directory. Blocks.

    ``broker_id`` None: the directory's own id, 0 for a new directory. A damaged or missing copy is rewritten. Raises
    DataDirectoryError if the directory belongs to another broker or both copies are damaged.
    """
    where = join(path, META)
    copy = _read_copy(files, path)
    content = lock.read_at(0, _LIMIT)
    try:
        meta = Meta.decode(content)
        if copy is not None and copy != meta and b'"check"' not in content:
            raise ValueError(f"it differs from {META_COPY}, and has no checksum")
    except DataDirectoryError as error:
        raise DataDirectoryError(f"{where}: {error}") from error
    except ValueError as error:
        if copy is not None:
            report("{path} was damaged ({error}); it is rewritten from {copy}", path=where, error=error, copy=META_COPY)
            meta = copy
        elif any(map(_is_ours, files.list(path))):
            raise _unknown_instance(path, error) from error
        elif not _may_be_torn(content):
            raise DataDirectoryError(
                f"{where} is no file of logd, and stays as it is: give this broker a directory of its own, or move "
                "that file away"
            ) from error
        else:
            # Written in place, because this file holds the lock: a power loss may leave a part of it. But then the
            # directory has nothing else of logd, since this file is synced before anything else is created. Other
            # files may be there: a new file system has its lost+found.
            meta = Meta(broker_id or 0, new_instance())
        _rewrite(lock, meta)
    if copy is not None and copy == evolve(meta, format=copy.format) and copy.format > meta.format:
        meta = copy  # a crash came between the two writes of raise_format
        _rewrite(lock, meta)
    if broker_id is not None and broker_id != meta.broker_id:
        raise DataDirectoryError(
            f"data directory {path} belongs to broker {meta.broker_id}, not {broker_id}: "
            f"start with --id {meta.broker_id}, or give broker {broker_id} a directory of its own"
        )
    # Also if the file existed: the process that wrote it may have been killed before its sync.
    lock.sync_data()
    if copy != meta:
        try:
            replace_file(files, path, META_COPY, meta.encode())
        except OSError as error:
            report("cannot write a copy of {path}: {error}; the next start tries again", path=where, error=error)
    return meta


def raise_format(files: IFileOperations, path: str, meta: Meta) -> None:
    """Write ``meta``, whose format is higher than that in the files, durably on return. Blocks; raises OSError.

    The copy is written first. A crash can tear ``meta``, which is written in place because it holds the lock; then the
    copy decides, and it must not say less than the entries need.
    """
    replace_file(files, path, META_COPY, meta.encode())
    # A descriptor of its own: that of the lock may be closed meanwhile, and its number be given to another file.
    file = files.open(join(path, META))
    try:
        _rewrite(file, meta)
        file.sync_data()
    finally:
        file.close()


def _may_be_torn(content: bytes) -> bool:
    """Return whether a power loss may have left this of a first ``meta``: what was not written is zeros."""
    beginning = zip(content, _BEGINNING, strict=False)
    return len(content) < _LIMIT and all(byte in (0, ours) for byte, ours in beginning)


def _rewrite(file: IFile, meta: Meta) -> None:
    # Not truncated first: contents of equal length then change within one sector.
    content = meta.encode()
    file.write_at(0, content)
    file.truncate(len(content))


def _read_copy(files: IFileOperations, path: str) -> Meta | None:
    """Return the identity in the second copy, None if it is missing, damaged or unreadable."""
    try:
        data = read_file(files, join(path, META_COPY), _LIMIT)
        return None if data is None or b'"check"' not in data else Meta.decode(data)
    except (OSError, ValueError, DataDirectoryError):
        return None


def _unknown_instance(path: str, error: ValueError) -> DataDirectoryError:
    """Return the error for a directory of unknown identity; with a new uuid, every partition would count as lost."""
    return DataDirectoryError(
        f"{join(path, META)} is damaged ({error}), and {META_COPY} is missing or damaged: the broker's id and the uuid "
        "of this directory are not known, and are not guessed. Put a copy of meta back, or write there "
        '{"format": 2, "broker_id": ID, "instance": "UUID"}: the coordination tree has the UUID at '
        "/brokers/stored/TOPIC-UUID/ID"
    )


def _is_ours(name: str) -> bool:
    return name in (TOPICS, META_COPY) or folder_partition(name) is not None or is_deleted_name(name)
