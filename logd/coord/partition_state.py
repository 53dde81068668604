"""The state of a partition of a replicated topic, as it stands in the coordination tree.

/brokers/topics/<topic>/partitions/<p>/state
    {"version": 1, "controller_epoch": 3, "leader": 1, "leader_epoch": 5, "isr": [1, 2], "last": [3],
     "instances": {"1": "<uuid>", "2": "<uuid>", "3": "<uuid>"}}

The members up to ``isr`` are those of Kafka 0.8. ``last`` are replicas that left the in-sync set while it was below
min.insync.replicas, and a leader that has given up: nothing has become visible since, so they have everything visible.
``instances`` names the data directory of each broker in both lists; a broker with another one is in neither. Once a
person has let a replica lead that lacked messages, ``"unclean_epoch"`` is the leader epoch in which the last such one
began to lead. ``"successor"`` is the in-sync replica to which the leader is to hand over, as the controller wants it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from attrs import field, frozen

from logd.checkedjson import decimal, excerpt, load_json, whole_number
from logd.leadership import NO_LEADER

_INSTANCE = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
#: A partition has at most this many replicas.
MOST_REPLICAS = 100


@frozen
class PartitionState:
    """The state of one partition. Brokers are named by their ids."""

    #: NO_LEADER if none of the brokers that may lead is live.
    leader: int
    #: Rises with each change of the leader, also to none.
    leader_epoch: int
    #: The in-sync replicas. Without a leader: those that may lead once they are back.
    in_sync: tuple[int, ...]
    #: The replicas that have everything visible, though they are not in sync.
    last: tuple[int, ...] = ()
    #: The instance of the data directory of each broker above.
    instances: Mapping[int, str] = field(factory=dict)
    #: The epoch of the controller that wrote the leader.
    controller_epoch: int = 0
    #: The leader epoch that began with the last unclean election; 0 if there was none.
    unclean_epoch: int = 0
    #: The replica to which the leader is to hand over once that has everything; NO_LEADER if it is to go on.
    successor: int = NO_LEADER

    def is_member(self, broker: int, instance: str) -> bool:
        """Return whether a broker with this data directory is in sync."""
        return broker in self.in_sync and self.instances.get(broker) == instance

    def live_among(self, members: Collection[int], live: Mapping[int, str]) -> tuple[int, ...]:
        """Return those of some members of the two lists that are live with these data directories, ascending."""
        return tuple(broker for broker in sorted(members) if live.get(broker) == self.instances[broker])

    def counts_on(self, broker: int, instance: str) -> bool:
        """Return whether a broker with this data directory has everything visible: it is in one of the two lists."""
        return broker in (*self.in_sync, *self.last) and self.instances.get(broker) == instance

    def leads(self, broker: int, instance: str) -> bool:
        """Return whether a broker with this data directory leads."""
        return self.leader == broker and self.instances.get(broker) == instance

    def encode(self) -> bytes:
        """Return the node's value."""
        value: dict[str, Any] = {
            "version": 1,
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "isr": list(self.in_sync),
            "last": list(self.last),
            "instances": {str(broker): uuid for broker, uuid in sorted(self.instances.items())},
        }
        if self.unclean_epoch:
            value["unclean_epoch"] = self.unclean_epoch
        if self.successor != NO_LEADER:
            value["successor"] = self.successor
        return json.dumps(value).encode()

    @classmethod
    def decode(cls, data: bytes) -> PartitionState:
        """Decode a node's value; raise ValueError, and nothing else, for any other value."""
        try:
            value = load_json(data)
            leader, successor = value["leader"], value.get("successor")
            instances = {decimal(broker): _instance(uuid) for broker, uuid in value["instances"].items()}
            state = cls(
                NO_LEADER if leader == NO_LEADER and type(leader) is int else whole_number(leader),
                whole_number(value["leader_epoch"]),
                _brokers(value["isr"]),
                _brokers(value["last"]),
                instances,
                whole_number(value["controller_epoch"]),
                whole_number(value.get("unclean_epoch", 0)),
                NO_LEADER if successor is None else whole_number(successor),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the state of a partition ({error!r}): {excerpt(data)}") from error
        members = {*state.in_sync, *state.last}
        if not members <= instances.keys() or (state.leader != NO_LEADER and state.leader not in state.in_sync):
            raise ValueError(f"not the state of a partition: {excerpt(data)}")
        return state


def _brokers(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > MOST_REPLICAS or len(set(map(str, value))) != len(value):
        raise ValueError(f"{excerpt(value)} is no list of different brokers")
    return tuple(map(whole_number, value))


def _instance(value: Any) -> str:
    if not isinstance(value, str) or not _INSTANCE.match(value):
        raise ValueError(f"{excerpt(value)} is no instance")
    return value
