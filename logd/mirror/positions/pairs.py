"""Pairs of positions: where on the target a reader goes on that has come to a position on the source.

A pair says: every message of the source's partition from ``position`` on has a copy on the target, or will have one, at
or behind ``positions``. It holds because a partition's sets are stored in order, and because a mirror publishes a pair
only after its group's commit of that position succeeded: a mirror that has lost the partition cannot commit, so all
that others store follows. Pairs stay true when a mirror begins again before them: it stores later copies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import frozen

from logd.checkedjson import INT64_MAX, decimal, excerpt, load_json, whole_number
from logd.topic import check_topic_name, is_uuid

_VERSION = 1


@frozen
class PositionPair:
    """One pair, and what was mirrored since the partition's last one."""

    #: The uuid of the source's cluster, and of the topics.
    cluster: str
    topic: str
    topic_uuid: str
    partition: int
    #: The position on the source.
    position: int
    target: str
    target_uuid: str
    #: Positions on the target, by partition: one, or each to which the source's partition is divided by key. The pair
    #: says nothing of a partition whose end was not known: earlier pairs count for it, or the start of its log.
    positions: Mapping[int, int]
    #: The time of the pair in ms, and messages and bytes since the last one by the same mirror.
    time: int
    messages: int = 0
    size: int = 0
    #: The end of the source's visible log, as far as it was known.
    end: int = -1

    @property
    def key(self) -> bytes:
        """Return the key of the message: the last pair of each key is the newest one of its partition."""
        return f"{self.cluster}/{self.topic}/{self.partition}".encode()

    def encode(self) -> bytes:
        """Return the pair as compact JSON."""
        value = {
            "v": _VERSION,
            "from": self.cluster,
            "topic": self.topic,
            "uuid": self.topic_uuid,
            "partition": self.partition,
            "position": self.position,
            "to": self.target,
            "to_uuid": self.target_uuid,
            "positions": {str(number): position for number, position in sorted(self.positions.items())},
            "time": self.time,
            "messages": self.messages,
            "bytes": self.size,
            "end": self.end,
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> PositionPair:
        """Return the pair of a message. Raises ValueError alone, for anything else."""
        value = load_json(data)
        try:
            if value["v"] != _VERSION:
                raise ValueError(f"version {excerpt(value['v'])} is not known to this release")
            for name in ("from", "uuid", "to_uuid"):
                if not is_uuid(value[name]):
                    raise ValueError(f"{excerpt(value[name])} is no uuid")
            return cls(
                cluster=value["from"],
                topic=check_topic_name(str(value["topic"])),
                topic_uuid=value["uuid"],
                partition=whole_number(value["partition"]),
                position=whole_number(value["position"], INT64_MAX),
                target=check_topic_name(str(value["to"])),
                target_uuid=value["to_uuid"],
                positions={
                    decimal(number): whole_number(each, INT64_MAX) for number, each in value["positions"].items()
                },
                time=whole_number(value["time"], INT64_MAX),
                messages=whole_number(value.get("messages", 0), INT64_MAX),
                size=whole_number(value.get("bytes", 0), INT64_MAX),
                end=max(-1, int(value.get("end", -1))),
            )
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(f"not a pair of positions ({error!r}): {excerpt(value)}") from error
