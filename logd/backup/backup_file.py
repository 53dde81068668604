"""The file of a backup: lines of JSON, of which the last one has the checksum of all others.

::

    {"logd_backup": 1, "logd": "0.1.0", "cluster": "<uuid>", "began_ms": 1764000000000, "ended_ms": 1764000000123}
    {"path": "/brokers/topics/clicks", "data": "{...}"}            a node; "base64" in place of "data" for other bytes
    {"nodes": 1, "sha256": "<of all lines before this one>"}

Nodes are sorted by path, so that two backups can be compared by ``diff``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from attrs import frozen

from logd import __version__
from logd.backup.contents import check_node
from logd.checkedjson import INT64_MAX, excerpt, load_json, whole_number
from logd.errors import LogdError

FORMAT = 1
#: The longest line: a node has 1 MiB at most, and a byte of it takes six characters at most.
LONGEST = 8 << 20
_TEMPORARY = ".writing"


class BadBackup(LogdError):
    """A file is no backup, is damaged, or is one of a later release."""


@frozen
class Backup:
    """Nodes of a tree, and when the reading of its definitions began and ended, in ms since the epoch."""

    cluster: str
    began_ms: int
    ended_ms: int
    nodes: Mapping[str, bytes]
    #: The version of logd that wrote it.
    version: str = __version__


def encode(backup: Backup) -> Iterator[bytes]:
    """Yield the lines of a file."""
    digest = hashlib.sha256()
    for value in _values(backup):
        line = json.dumps(value).encode() + b"\n"
        digest.update(line)
        yield line
    yield json.dumps({"nodes": len(backup.nodes), "sha256": digest.hexdigest()}).encode() + b"\n"


def _values(backup: Backup) -> Iterator[dict[str, Any]]:
    yield {
        "logd_backup": FORMAT,
        "logd": backup.version,
        "cluster": backup.cluster,
        "began_ms": backup.began_ms,
        "ended_ms": backup.ended_ms,
    }
    for path, data in sorted(backup.nodes.items()):
        try:
            yield {"path": path, "data": data.decode()}
        except UnicodeDecodeError:
            yield {"path": path, "base64": base64.b64encode(data).decode("ascii")}


def write_backup(path: str, backup: Backup, replace: bool) -> None:
    """Write a file for its owner alone, durably, all of it or nothing. Raises BadBackup if it exists, and OSError."""
    if os.path.lexists(path):
        if not replace:
            raise BadBackup(f"{path} exists: name another file, or give --replace")
        if os.path.exists(path) and not os.path.isfile(path):
            raise BadBackup(f"{path} is no file, and is not replaced: name another one")  # such as a device
    folder = os.path.dirname(os.path.abspath(path))
    temporary = f"{path}{_TEMPORARY}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            for line in encode(backup):
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            try:
                os.link(temporary, path)  # unlike a rename, never over a file that has come meanwhile
            except FileExistsError:
                raise BadBackup(f"{path} exists: name another file, or give --replace") from None
            os.unlink(temporary)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def read_backup(path: str) -> Backup:
    """Read a file and check all of it. Raises BadBackup, which names the line, and OSError."""
    with open(path, "rb") as file:
        try:
            return _read(file)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadBackup(f"{path} is no sound backup: {error}; take another one") from error


def _read(file: BinaryIO) -> Backup:
    digest, head, number = hashlib.sha256(), None, 0
    nodes: dict[str, bytes] = {}
    while line := file.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST or not line.endswith(b"\n"):
            raise ValueError(f"line {number} is cut off, or longer than {LONGEST:,} bytes")
        try:
            value = load_json(line)
        except ValueError:  # its text shows the line, which may be that of a user's verifiers
            raise ValueError(f"line {number} is not JSON") from None
        if not isinstance(value, dict):
            raise ValueError(f"line {number} is no object: {excerpt(value)}")
        if head is None:
            head = _checked_head(value)
        elif "sha256" in value:
            if value["sha256"] != digest.hexdigest() or value.get("nodes") != len(nodes):
                raise ValueError(f"the checksum in line {number} is another one than that of the lines before it")
            if file.read(1):
                raise ValueError(f"there is more behind line {number}, which is its last one")
            cluster, began, ended, version = head
            return Backup(cluster, began, ended, nodes, version)
        else:
            path, data = _node(number, value)
            if path in nodes:
                raise ValueError(f"line {number} names {path} again")
            nodes[path] = data
        digest.update(line)
    raise ValueError("its end is missing" if number else "it is empty")


def _checked_head(value: dict[str, Any]) -> tuple[str, int, int, str]:
    found = value.get("logd_backup")
    if type(found) is not int:
        raise ValueError("line 1 is not that of a backup of logd")
    if found != FORMAT:
        raise ValueError(
            f"it has format {found}, made by logd {excerpt(value.get('logd'))}; this is logd {__version__}, which "
            f"knows format {FORMAT}"
        )
    began, ended = [whole_number(value[name], INT64_MAX) for name in ("began_ms", "ended_ms")]
    return str(value["cluster"]), began, ended, str(value["logd"])


def _node(number: int, value: dict[str, Any]) -> tuple[str, bytes]:
    try:
        path = value["path"]
        data = value["data"].encode() if "data" in value else base64.b64decode(value["base64"], validate=True)
        if not isinstance(path, str):
            raise ValueError(f"{excerpt(path)} is no path")
        check_node(path, data)
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise ValueError(f"line {number} is no node: {error!r}") from error
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from error
    return path, data
