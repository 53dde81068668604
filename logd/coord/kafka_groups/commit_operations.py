"""The operations of a commit: a position and a text for each partition, in transactions that ZooKeeper takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from logd.coord import paths
from logd.coord.records import ANY_VERSION, Check, Create, Delete, Operation, SetData
from logd.coord.registries.offsets import encode_position
from logd.topic import TopicPartition

#: Bytes of the operations in one transaction: ZooKeeper takes 1 MiB.
TRANSACTION_BYTES = 500_000
#: Bytes of an operation beside its path and its data: its heads, and its access list.
_HEAD_BYTES = 64


@frozen
class Committed:
    """A position, and the text that the client has stored beside it."""

    position: int
    metadata: str = ""


@frozen
class PositionNodes:
    """The nodes of a partition, as last seen: the version of its position, and whether there is a text."""

    #: None: there is no position.
    version: int | None
    has_text: bool


Commits = Mapping[TopicPartition, Committed]


def chunks(commits: Commits, group: str) -> Iterator[Commits]:
    """Divide a commit into such as fit into a transaction; sorted."""
    chunk: dict[TopicPartition, Committed] = {}
    size = 0
    for where in sorted(commits):
        commit = commits[where]
        path = len(paths.group_metadatum(group, *where).encode())
        needed = 3 * (path + _HEAD_BYTES) + len(commit.metadata.encode())  # the third is the check of its topic
        if chunk and size + needed > TRANSACTION_BYTES:
            yield chunk
            chunk, size = {}, 0
        chunk[where] = commit
        size += needed
    if chunk:
        yield chunk


def topic_checks(places: Iterable[TopicPartition]) -> list[Check]:
    """Return the checks that the topics exist: a position of a deleted topic would be taken for one of the next."""
    return [Check(paths.topic(topic)) for topic in sorted({where.topic for where in places})]


def changes(
    group: str, commits: Commits, known: Mapping[TopicPartition, PositionNodes], *, versions: bool = False
) -> list[Operation]:
    """Return the changes of a commit; ``versions``: of positions that have not changed since they were looked at."""
    operations: list[Operation] = []
    for where, commit in commits.items():
        nodes = known[where]
        path, data = paths.group_offset(group, *where), encode_position(commit.position)
        if nodes.version is None:
            operations.append(Create(path, data))
        else:
            operations.append(SetData(path, data, nodes.version if versions else ANY_VERSION))
        path, data = paths.group_metadatum(group, *where), commit.metadata.encode()
        if data:
            operations.append(SetData(path, data) if nodes.has_text else Create(path, data))
        elif nodes.has_text:
            operations.append(Delete(path))
    return operations
