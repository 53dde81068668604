"""Topics that are kept whole, since they are to be compacted, which is not done yet: they grow with each write."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from logd.doctor.disks import AREA, Room, shown_size
from logd.doctor.losses import ClusterContents
from logd.doctor.observation import Level, Observation
from logd.log.disk.names import folder_name, segment_start
from logd.plurals import counted
from logd.topic import TopicEntry

#: Topics that a finding names.
_NAMED = 5
#: The share of the space that they and what is free make together, from which on they are a reason to act.
_MUCH = 0.1


def kept_topics(cluster: ClusterContents) -> dict[str, TopicEntry]:
    """Return the topics of which retention deletes nothing."""
    return {name: entry for name, entry in cluster.topics.items() if entry.is_kept_whole}


def measure_topics(data: str, topics: Mapping[str, TopicEntry]) -> dict[str, int]:
    """Return the bytes that each topic's segments take in a data directory; what cannot be read counts for nothing."""
    found = dict.fromkeys(topics, 0)
    for name, entry in topics.items():
        for number in entry.partitions:
            with suppress(OSError), os.scandir(os.path.join(data, folder_name(name, number))) as files:
                for file in files:
                    if segment_start(file.name) is not None:
                        found[name] += file.stat().st_blocks * 512
    return found


def examine_kept_topics(
    cluster: ClusterContents, sizes: Mapping[str, int] | None, room: Room | None
) -> Iterator[Observation]:
    """Name the topics that are kept whole. ``sizes``: their bytes on this machine, by topic; None if it has no data.

    ``room`` is that of the file system, None if it is not known.
    """
    topics = kept_topics(cluster)
    if not topics:
        return
    known = {} if sizes is None else sizes
    names = sorted(topics, key=lambda name: (-known.get(name, 0), name))
    shown = [name if sizes is None else f"{name} {shown_size(known.get(name, 0))}" for name in names[:_NAMED]]
    listed = ", ".join([*shown, *(["..."] if len(names) > _NAMED else [])])
    total = sum(known.get(name, 0) for name in topics)
    here = "" if sizes is None else f"; {shown_size(total)} are here"
    yield Observation(
        AREA,
        Level.WARNING if room is not None and total >= _MUCH * (room.free + total) > 0 else Level.NOTE,
        counted(len(topics), "topic"),
        "kept whole, whatever their retention, as their cleanup.policy is compact: there is no compaction yet, and "
        f"they grow with each write{here} ({listed})",
        "give one whose old keys may go cleanup.policy = compact,delete and a retention.ms (docs/kafka.md); else write "
        "the last message of each key to a new topic, and delete the old one",
    )
