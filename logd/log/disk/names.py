"""The names of files and folders in the data directory, made and parsed."""

from __future__ import annotations

import re

from logd.errors import InvalidTopic
from logd.topic import check_topic_name

SEGMENT_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TEMPORARY_SUFFIX = ".tmp"
#: A segment that recovery gave up although a checkpoint vouched for it, or an unreadable entry with a valid checksum
#: that repair replaced by a gap; kept for a person to examine.
DROPPED_SUFFIX = ".dropped"
_KEPT_ENTRY_SUFFIX = f".entry{DROPPED_SUFFIX}"
#: The folder of a deleted partition, or of a replica that begins again; the next start removes what a crash left of it.
DELETED_SUFFIX = ".deleted"
#: A partition's folder as it was before its log began again; kept for a person to examine.
LOST_SUFFIX = ".lost"
#: The folder of a log that begins again, while it is made.
BEGINNING_SUFFIX = ".beginning"

CHECKPOINT = "checkpoint"
MARK = "mark"
#: The last batches of idempotent producers.
PRODUCERS = "producers"
#: The leader epochs of a replicated partition.
EPOCHS = "epochs"
EPOCHS_COPY = "epochs.copy"
META = "meta"
#: A second copy of meta: the identity of a directory cannot be restored from anything else.
META_COPY = "meta.copy"
TOPICS = "topics.json"
#: There while the cluster has users or access rules.
SECURED = "secured"
#: The broker's own coordination tree, which logd/log leaves alone.
COORDINATION = "coordination"
#: The names in a data directory beside the folders of partitions.
NO_PARTITIONS = frozenset((META, META_COPY, TOPICS, SECURED, COORDINATION))

#: The files in the directory of a coordination tree (``logd/coord/server/storage/folder.py``).
_TREE = re.compile(r"(?:changes|snapshot)\.[0-9a-f]{16}\Z")
_SEGMENT = re.compile(r"([0-9]{20})\.log\Z", re.ASCII)
_DELETED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}" + re.escape(DELETED_SUFFIX) + r"\Z")
_ASIDE = re.compile(r"(.+-[0-9]+)\.([0-9]+)(\.[0-9]+)?(\.lost|\.beginning)\Z", re.ASCII | re.DOTALL)
_FOLDER = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})\Z", re.ASCII | re.DOTALL)


def join(folder: str, name: str) -> str:
    """Return the path of ``name`` in ``folder``."""
    return f"{folder}/{name}"


def segment_name(start: int) -> str:
    """Return the file name of the segment that begins at position ``start``."""
    return f"{start:020d}{SEGMENT_SUFFIX}"


def kept_entry_name(position: int) -> str:
    """Return the file name under which repair keeps the entry that was at ``position``."""
    return f"{position:020d}{_KEPT_ENTRY_SUFFIX}"


def is_kept_entry(name: str) -> bool:
    """Return whether a file name in a partition's folder is that of an entry kept by repair."""
    return name.endswith(_KEPT_ENTRY_SUFFIX)


def index_name(start: int) -> str:
    """Return the file name of the index of the segment that begins at ``start``."""
    return f"{start:020d}{INDEX_SUFFIX}"


def segment_start(name: str) -> int | None:
    """Return the start position in a segment's file name, None for any other name."""
    match = _SEGMENT.match(name)
    if match is None:
        return None
    start = int(match[1])
    return start if start < 1 << 63 else None


def is_tree_name(name: str) -> bool:
    """Return whether a name is that of a file of a coordination tree, whose directory is no broker's."""
    return _TREE.match(name) is not None


def is_deleted_name(name: str) -> bool:
    """Return whether a name is that of a deleted partition's folder."""
    return _DELETED.match(name) is not None


def is_lost_name(name: str) -> bool:
    """Return whether a name is that of a lost log's folder, which was set aside."""
    return name.endswith(LOST_SUFFIX) and _is_aside(name)


def is_beginning_name(name: str) -> bool:
    """Return whether a name is that of an unfinished folder of a log that begins again."""
    return name.endswith(BEGINNING_SUFFIX) and _is_aside(name)


def _is_aside(name: str) -> bool:
    match = _ASIDE.match(name)
    return match is not None and folder_partition(match[1]) is not None


def index_start(name: str) -> int | None:
    """Return the start position in an index's file name, None for any other name."""
    return segment_start(name.removesuffix(INDEX_SUFFIX) + SEGMENT_SUFFIX) if name.endswith(INDEX_SUFFIX) else None


def folder_name(topic: str, partition: int) -> str:
    """Return the name of a partition's folder."""
    return f"{topic}-{partition}"


def folder_partition(name: str) -> tuple[str, int] | None:
    """Return (topic, partition) of a folder's name, None for any other name; the last '-' separates them."""
    match = _FOLDER.match(name)
    if match is None or int(match[2]) >= 1 << 31:
        return None
    try:
        return check_topic_name(match[1]), int(match[2])
    except InvalidTopic:
        return None
