"""How files and folders of the data directory are called, and how a name found there is read back."""

from __future__ import annotations

import re

from logd.errors import InvalidTopic
from logd.topic import check_topic_name

SEGMENT_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TEMPORARY_SUFFIX = ".tmp"
#: A segment that recovery had to give up although a checkpoint vouched for it, or an entry whose checksum holds and in
#: whose place repair made a gap: kept aside for a person to look at.
DROPPED_SUFFIX = ".dropped"
_KEPT_ENTRY_SUFFIX = f".entry{DROPPED_SUFFIX}"
#: A partition's folder on its way out; what is left of one after a crash is removed at the next start.
DELETED_SUFFIX = ".deleted"
#: A partition's folder as it was before its log began again: for a person to look at.
LOST_SUFFIX = ".lost"
#: The folder of a log that begins again, while it is made.
BEGINNING_SUFFIX = ".beginning"

CHECKPOINT = "checkpoint"
MARK = "mark"
META = "meta"
#: A second copy of meta: which directory this is cannot be made up.
META_COPY = "meta.copy"
TOPICS = "topics.json"
#: The coordination tree that a broker keeps for itself; not the log's to touch.
COORDINATION = "coordination"

_SEGMENT = re.compile(r"([0-9]{20})\.log\Z", re.ASCII)
_DELETED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}" + re.escape(DELETED_SUFFIX) + r"\Z")
_ASIDE = re.compile(r"(.+-[0-9]+)\.([0-9]+)(\.[0-9]+)?(\.lost|\.beginning)\Z", re.ASCII | re.DOTALL)
_FOLDER = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})\Z", re.ASCII | re.DOTALL)


def join(folder: str, name: str) -> str:
    """Return the path of ``name`` in ``folder``."""
    return f"{folder}/{name}"


def segment_name(start: int) -> str:
    """Return the file name of the segment whose first byte has position ``start``."""
    return f"{start:020d}{SEGMENT_SUFFIX}"


def kept_entry_name(position: int) -> str:
    """Return the name under which repair keeps the entry that was at ``position``."""
    return f"{position:020d}{_KEPT_ENTRY_SUFFIX}"


def is_kept_entry(name: str) -> bool:
    """Return whether a file in a partition's folder is an entry that repair has kept."""
    return name.endswith(_KEPT_ENTRY_SUFFIX)


def index_name(start: int) -> str:
    """Return the file name of that segment's index."""
    return f"{start:020d}{INDEX_SUFFIX}"


def segment_start(name: str) -> int | None:
    """Return the start position that a segment's file name says, or None when it is no segment's name."""
    match = _SEGMENT.match(name)
    if match is None:
        return None
    start = int(match[1])
    return start if start < 1 << 63 else None


def is_deleted_name(name: str) -> bool:
    """Return whether a name is that of a partition's folder on its way out."""
    return _DELETED.match(name) is not None


def is_lost_name(name: str) -> bool:
    """Return whether a name is that of the folder of a lost log that was kept aside."""
    return name.endswith(LOST_SUFFIX) and _is_aside(name)


def is_beginning_name(name: str) -> bool:
    """Return whether a name is that of a folder which a crash left while a log was begun again."""
    return name.endswith(BEGINNING_SUFFIX) and _is_aside(name)


def _is_aside(name: str) -> bool:
    match = _ASIDE.match(name)
    return match is not None and folder_partition(match[1]) is not None


def index_start(name: str) -> int | None:
    """Return the start position that an index's file name says, or None when it is no index's name."""
    return segment_start(name.removesuffix(INDEX_SUFFIX) + SEGMENT_SUFFIX) if name.endswith(INDEX_SUFFIX) else None


def folder_name(topic: str, partition: int) -> str:
    """Return the name of a partition's folder."""
    return f"{topic}-{partition}"


def folder_partition(name: str) -> tuple[str, int] | None:
    """Return topic and partition of a folder's name, None when it is none; the topic is what precedes the last '-'."""
    match = _FOLDER.match(name)
    if match is None or int(match[2]) >= 1 << 31:
        return None
    try:
        return check_topic_name(match[1]), int(match[2])
    except InvalidTopic:
        return None
