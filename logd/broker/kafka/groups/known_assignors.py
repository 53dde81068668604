"""The assignors that the members of one group know, counted: a request to join is not compared with all members."""

from __future__ import annotations

from collections import Counter

from logd.broker.kafka.groups.members import JoinRequest


class KnownAssignors:
    """See the module. Each member counts by what it asked for last."""

    def __init__(self) -> None:
        self._members = 0
        self._types: Counter[str] = Counter()
        self._names: Counter[str] = Counter()

    def add(self, asked: JoinRequest) -> None:
        """Count a member."""
        self._members += 1
        self._types[asked.protocol_type] += 1
        self._names.update(asked.names)

    def remove(self, asked: JoinRequest) -> None:
        """Count a member no more."""
        self._members -= 1
        for counts, names in ((self._types, (asked.protocol_type,)), (self._names, asked.names)):
            for name in names:
                counts[name] -= 1
                if not counts[name]:
                    del counts[name]

    def fits(self, asked: JoinRequest, own: JoinRequest | None) -> bool:
        """Return whether all members are of the kind of a request to join, and know one of its assignors.

        ``own``: what the same member asked for before, which does not count; None for a new one.
        """
        others, own_type, own_names = self._members, "", frozenset[str]()
        if own is not None:
            others, own_type, own_names = others - 1, own.protocol_type, own.names
        if self._types[asked.protocol_type] - (own_type == asked.protocol_type) != others:
            return False
        return any(self._names[name] - (name in own_names) == others for name in asked.names)
