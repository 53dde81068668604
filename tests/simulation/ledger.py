"""What was sent, acknowledged, handled and committed; everything that has to hold of it is checked as it happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from attrs import define, field

from logd.protocol.message import Message
from tests.simulation.violation import Violation, check

#: A partition.
Place = tuple[str, int]
#: A message: who sent it, and its number among those.
Key = tuple[str, int]
#: What each message of a wrapper begins with that becomes more than its readers allow: nobody may be given it.
BOMB = b"bomb/0/"


def key_of(payload: bytes) -> Key:
    """Which message this is, by its payload."""
    producer, number, _ = payload.split(b"/", 2)
    return producer.decode(), int(number)


@define(eq=False)
class Progress:
    """How far a group has come in a partition."""

    #: Everything before this position was handled by an application.
    handled: int = 0
    #: The last new number of each producer.
    newest: dict[str, int] = field(factory=dict)
    #: How often each message was handled.
    times: dict[Key, int] = field(factory=dict)
    committed: int = 0
    #: The same as ``handled``, but of the tenure that began last: without what was handled in former ones alone.
    reached: int = 0
    #: Where messages begin that were handled.
    boundaries: list[int] = field(factory=list)
    #: Whether who handles next began without a position, at the log's start, and so knows nothing of former tenures.
    unknown: bool = False


@define(eq=False)
class Ledger:
    """All of it, over all processes; they cannot see it."""

    #: (topic, payload) of what was handed to a producer.
    sent: dict[Key, tuple[str, bytes]] = field(factory=dict)
    #: Where what was acknowledged is.
    acknowledged: dict[Key, Place] = field(factory=dict)
    groups: dict[str, dict[Place, Progress]] = field(factory=dict)
    duplicates: int = 0
    commits: int = 0
    refused_commits: int = 0
    #: Up to where retention has removed each partition, and what was there, in order.
    removed: dict[Place, int] = field(factory=dict)
    removed_payloads: dict[Place, list[bytes]] = field(factory=dict)
    #: What is in no log any more; a group that has not had it by then need not get it.
    gone: set[Key] = field(factory=set)
    #: What was removed, though there may be another copy of it.
    first_gone: set[Key] = field(factory=set)
    #: Ranges of each partition that were lost, and in whose place a repair has put gaps; and what was there.
    gaps: dict[Place, list[tuple[int, int]]] = field(factory=dict)
    lost_payloads: dict[Place, list[bytes]] = field(factory=dict)
    #: Wrappers of each partition that no reader opens, since they would become more than is allowed.
    bombs: dict[Place, set[tuple[int, int]]] = field(factory=dict)
    #: Logs of which an operator has accepted the loss.
    begun_again: set[Place] = field(factory=set)
    #: Names of producers of whose messages one may overtake another: nobody tells them what has arrived.
    careless: set[str] = field(factory=set)
    #: How often a group went on behind something that it never had; and how often that was a gap.
    skips: Counter[str] = field(factory=Counter)
    gap_skips: Counter[str] = field(factory=Counter)

    def send(self, producer: str, number: int, topic: str, filler: bytes) -> bytes:
        """A producer is given a message; returns its payload."""
        payload = b"%s/%d/%s" % (producer.encode(), number, filler)
        self.sent[producer, number] = (topic, payload)
        return payload

    def acknowledge(self, payload: bytes, topic: str, partition: int) -> None:
        """A broker has it, so it was said."""
        self.acknowledged[key_of(payload)] = (topic, partition)

    def progress(self, group: str, topic: str, partition: int) -> Progress:
        """How far a group is."""
        return self.groups.setdefault(group, {}).setdefault((topic, partition), Progress())

    def handle(self, group: str, who: str, message: Message, position: int) -> None:
        """An application has handled a message; ``position`` is the one before it."""
        topic, partition = message.topic, message.partition
        assert topic is not None and message.payload is not None
        progress = self.progress(group, topic, partition)
        removed = self.removed.get((topic, partition), 0)
        self.gap_skips[group] += sum(
            max(progress.handled, removed) <= start and end <= position
            for start, end in self.gaps.get((topic, partition), ())
        )
        if position > self.through((topic, partition), progress.handled):
            # A group that has handled nothing yet, or committed nothing of it, begins where the log does. What was
            # committed does not tell else: a group that was told of a loss commits the position behind it.
            self.skips[group] += progress.handled > 0 and not progress.unknown
            known = who, topic, partition, position, progress.handled, removed
            check(position <= self.through((topic, partition), removed), "messages were left out", *known)
        key = key_of(message.payload)
        check(self.sent.get(key) == (topic, message.payload), "this was never sent", who, topic, message.payload)
        count = progress.times[key] = progress.times.get(key, 0) + 1
        if count == 1:
            newest = progress.newest.get(key[0], -1)
            # Of what was sent twice the first copy may be gone, and what followed on it be there.
            in_order = key[1] > newest or key in self.first_gone or key[0] in self.careless
            check(in_order, "a partition is out of order", who, topic, partition, key, newest)
            progress.newest[key[0]] = max(key[1], newest)
            progress.boundaries.append(position)
        else:
            self.duplicates += 1
        progress.handled = max(progress.handled, message.next_position)
        progress.unknown = False
        if position <= self.through(
            (topic, partition), max(progress.reached, removed)
        ):  # else it was handed over in a former tenure
            progress.reached = max(progress.reached, message.next_position)

    def move(self, group: str, topic: str, partition: int, position: int) -> None:
        """A position was moved from outside."""
        self.progress(group, topic, partition).committed = position

    def commit(self, group: str, topic: str, partition: int, position: int) -> None:
        """A position was written down in the tree."""
        self.commits += 1
        progress = self.progress(group, topic, partition)
        removed = self.removed.get((topic, partition), 0)
        known = group, topic, partition, position, progress.handled, progress.reached, progress.committed, removed
        come_to = self.through((topic, partition), max(progress.handled, removed))
        reached = self.through((topic, partition), max(progress.reached, removed))
        check(position <= come_to, "a position was committed that no application had come to", *known)
        check(position <= reached, "a commit of what was handled in a former tenure", *known)
        check(position >= progress.committed, "a commit went back", *known)
        progress.committed = position

    def remove(self, topic: str, partition: int, position: int, payloads: list[bytes], left: list[bytes]) -> None:
        """Retention has removed what was before a position: these; and those are left."""
        self.removed[topic, partition] = max(position, self.removed.get((topic, partition), 0))
        self.removed_payloads.setdefault((topic, partition), []).extend(payloads)
        self.first_gone.update(map(key_of, payloads))
        self.gone.update({key_of(payload) for payload in payloads}.difference(map(key_of, left)))

    def replace(
        self, topic: str, partition: int, start: int, end: int, payloads: list[bytes], left: list[bytes]
    ) -> None:
        """A repair has put gaps in the place of a range that held these payloads; those are left."""
        self.gaps.setdefault((topic, partition), []).append((start, end))
        self.gaps[topic, partition].sort()
        self.lost_payloads.setdefault((topic, partition), []).extend(payloads)
        self.first_gone.update(map(key_of, payloads))
        self.gone.update({key_of(payload) for payload in payloads}.difference(map(key_of, left)))

    def pass_bomb(self, place: Place, start: int, end: int) -> None:
        """A reader was told that a wrapper would become too much, and where to go on. Its messages were never known."""
        self.bombs.setdefault(place, set()).add((start, end))

    def through(self, place: Place, position: int) -> int:
        """Return where a reader is who has come to a position, once the gaps and bombs that follow it are passed."""
        for start, end in sorted([*self.gaps.get(place, ()), *self.bombs.get(place, ())]):
            if start <= position < end:
                position = end
        return position

    def missing(self, group: str, topics: frozenset[str] | None = None) -> list[Key]:
        """What was acknowledged and this group has not handled (of some topics)."""
        progress = self.groups.get(group, {})
        return [
            key
            for key, place in self.acknowledged.items()
            if (topics is None or place[0] in topics)
            and key not in self.gone
            and key not in (progress[place].times if place in progress else ())
        ]

    def check_complete(self, group: str, topics: frozenset[str] | None = None) -> None:
        """The group has handled everything that was acknowledged."""
        missing = self.missing(group, topics)
        if missing:
            raise Violation(
                f"{group} never got {len(missing)} acknowledged messages, first "
                f"{missing[0]} in {self.acknowledged[missing[0]]}"
            )

    def check_reported(self, group: str, jumps: int, gaps: int) -> None:
        """Whatever the group was not given since retention had removed it, or it was lost, its streams have counted."""
        skips, gap_skips = self.skips[group], self.gap_skips[group]
        check(skips <= jumps, "removed messages were passed by without a word", group, skips, jumps)
        check(gap_skips <= gaps, "gaps were passed by without a word", group, gap_skips, gaps)

    def check_logs(self, logs: Mapping[Place, list[bytes]]) -> None:
        """What the brokers have at the end, behind what was removed, is all that was acknowledged, in order."""
        found: dict[Key, Place] = {}
        for place, payloads in logs.items():
            newest: dict[str, int] = {}
            for payload in [*self.removed_payloads.get(place, ()), *payloads]:
                key = key_of(payload)
                check(self.sent.get(key) == (place[0], payload), "a log has what was never sent", place, payload)
                if key not in found:
                    found[key] = place
                    in_order = key[1] > newest.get(key[0], -1) or key[0] in self.careless or key in self.first_gone
                    check(in_order, "a log is out of order", place, key, newest.get(key[0]))
                    newest[key[0]] = max(key[1], newest.get(key[0], -1))
        for place, payloads in self.lost_payloads.items():
            for payload in payloads:
                found.setdefault(key_of(payload), place)
        for key, place in self.acknowledged.items():
            check(found.get(key) == place, "acknowledged, and not in its log", key, place, found.get(key))
