"""Losses if this machine goes: messages with one copy, and what the coordination tree alone knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import field, frozen

from logd.doctor.observation import Level, Observation
from logd.plurals import counted
from logd.topic import TopicEntry

AREA = "losses"
#: Topics that a finding names.
_NAMED = 5


@frozen
class ClusterContents:
    """The cluster as the coordination tree knows it."""

    #: The versions of the live brokers, by id.
    brokers: Mapping[int, str] = field(factory=dict)
    topics: Mapping[str, TopicEntry] = field(factory=dict)
    groups: Sequence[str] = ()
    users: int = 0
    schemas: int = 0
    #: True if the groups or the users were not told to these credentials.
    hidden: bool = False
    #: True if a client without credentials may change the brokers' nodes, or read the secret ones; None: not known.
    open_to_change: bool | None = None
    open_to_read: bool | None = None


def examine_copies(cluster: ClusterContents, me: int | None) -> Iterator[Observation]:
    """Name the topics that have partitions on one broker alone: on broker ``me``, or on any one for None."""
    alone = {}
    for name, entry in cluster.topics.items():
        mine = [number for number, brokers in entry.partitions.items() if len(brokers) == 1 and me in (None, *brokers)]
        if mine:
            alone[name] = len(mine)
    if not alone:
        if cluster.topics:
            yield Observation(AREA, Level.OK, "topics", "lose nothing with this machine")
        return
    names = ", ".join(sorted(alone)[:_NAMED]) + (", ..." if len(alone) > _NAMED else "")
    where = "one broker alone" if me is None else f"broker {me} alone"
    yield Observation(
        AREA,
        Level.WARNING,
        counted(len(alone), "topic"),
        f"{counted(sum(alone.values()), 'partition')} on {where}: the messages go with its disk ({names})",
        "mirror them to another cluster (`logd mirror`), load them elsewhere (`logd import`), or put the data "
        "directory on redundant disks",
    )


def examine_tree(cluster: ClusterContents, hosts: str | None, folder: str) -> Iterator[Observation]:
    """Say what is in a tree that one machine keeps: an embedded one in ``folder``, or that of a single server."""
    if hosts is not None and len(hosts.partition("/")[0].split(",")) > 1:
        yield Observation(AREA, Level.OK, "coordination tree", f"is kept by several servers ({hosts})")
        return
    groups = [] if cluster.hidden and not cluster.groups else [counted(len(cluster.groups), "group")]
    kept = [
        counted(len(cluster.topics), "topic") + " with settings",
        *(f"the positions of {each}" for each in groups),
        *(["what only brokers may read there (LOGD_ZOOKEEPER_DIGEST_FILE)"] if cluster.hidden else []),
        *([counted(cluster.users, "user")] if cluster.users else []),
        *([counted(cluster.schemas, "schema")] if cluster.schemas else []),
    ]
    where = f"in {folder} alone" if hosts is None else f"with the one server {hosts}"
    yield Observation(
        AREA,
        Level.WARNING if cluster.topics or cluster.groups or cluster.users or cluster.hidden else Level.NOTE,
        "coordination tree",
        f"is {where}: {', '.join(kept)}",
        "run `logd backup FILE` regularly and copy the file to another machine; or use a ZooKeeper ensemble",
    )
