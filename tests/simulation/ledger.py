"""The ledger of messages sent, acknowledged, handled and committed; each promise is checked as events come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from attrs import define, field

from logd.protocol.message import Message
from tests.simulation.violation import Violation, check

#: A partition.
Place = tuple[str, int]
#: A message: the name of its producer, and its number among the producer's messages.
Key = tuple[str, int]
#: The first bytes of each message in a wrapper that expands beyond its readers' bounds: no reader may get it.
BOMB = b"bomb/0/"


def key_of(payload: bytes) -> Key:
    """Return the producer and number of a message, by its payload."""
    producer, number, _ = payload.split(b"/", 2)
    return producer.decode(), int(number)


@define(eq=False)
class Progress:
    """A group's progress in a partition."""

    #: Every message before this position was handled by an application.
    handled: int = 0
    #: The highest number handled of each producer.
    newest: dict[str, int] = field(factory=dict)
    #: Times that each message was handled.
    times: dict[Key, int] = field(factory=dict)
    committed: int = 0
    #: As ``handled``, but of the current tenure: without messages that were handled only in former ones.
    reached: int = 0
    #: The positions of handled messages.
    boundaries: list[int] = field(factory=list)
    #: True when an owner began without a position, at the log's start, knowing nothing of former tenures; until
    #: something is handled.
    unknown: bool = False
    #: Gaps that were made of what the group had committed past before, such as a wrapper that was too large for it.
    past: set[tuple[int, int]] = field(factory=set)


@define(eq=False)
class Ledger:
    """The ledger of all processes, which cannot see it."""

    #: (topic, payload) of each message handed to a producer.
    sent: dict[Key, tuple[str, bytes]] = field(factory=dict)
    #: The partition of each acknowledged message.
    acknowledged: dict[Key, Place] = field(factory=dict)
    groups: dict[str, dict[Place, Progress]] = field(factory=dict)
    duplicates: int = 0
    commits: int = 0
    refused_commits: int = 0
    #: The position before which retention has removed each partition, and the removed payloads in order.
    removed: dict[Place, int] = field(factory=dict)
    removed_payloads: dict[Place, list[bytes]] = field(factory=dict)
    #: Messages that are in no log any more; a group that has not had one by then need not get it.
    gone: set[Key] = field(factory=set)
    #: Messages of which a copy was removed, though another one may be left.
    first_gone: set[Key] = field(factory=set)
    #: Ranges of each partition that a repair has replaced by gaps, and the lost payloads.
    gaps: dict[Place, list[tuple[int, int]]] = field(factory=dict)
    lost_payloads: dict[Place, list[bytes]] = field(factory=dict)
    #: Wrappers of each partition that no reader expands, since they exceed the bounds.
    bombs: dict[Place, set[tuple[int, int]]] = field(factory=dict)
    #: Logs whose loss an operator has accepted.
    begun_again: set[Place] = field(factory=set)
    #: Names of producers with acks=0, whose messages may overtake one another.
    careless: set[str] = field(factory=set)
    #: Times that a group went on behind messages that it never had, and times that this was a gap.
    skips: Counter[str] = field(factory=Counter)
    gap_skips: Counter[str] = field(factory=Counter)

    def send(self, producer: str, number: int, topic: str, filler: bytes) -> bytes:
        """Note a message of a producer; return its payload."""
        payload = b"%s/%d/%s" % (producer.encode(), number, filler)
        self.sent[producer, number] = (topic, payload)
        return payload

    def acknowledge(self, payload: bytes, topic: str, partition: int) -> None:
        """Note that a message was acknowledged."""
        self.acknowledged[key_of(payload)] = (topic, partition)

    def progress(self, group: str, topic: str, partition: int) -> Progress:
        """Return a group's progress in a partition."""
        return self.groups.setdefault(group, {}).setdefault((topic, partition), Progress())

    def handle(self, group: str, who: str, message: Message, position: int) -> None:
        """Check and note a message that an application has handled; ``position`` is where its reader stood before."""
        topic, partition = message.topic, message.partition
        assert topic is not None and message.payload is not None
        progress = self.progress(group, topic, partition)
        removed = self.removed.get((topic, partition), 0)
        self.gap_skips[group] += sum(
            max(progress.handled, removed) <= start and end <= position and (start, end) not in progress.past
            for start, end in self.gaps.get((topic, partition), ())
        )
        if position > self.through((topic, partition), progress.handled):
            # A group that has handled nothing yet, or committed nothing, begins where the log does. Its commits cannot
            # tell more: a group that was told of a loss commits the position behind it.
            self.skips[group] += progress.handled > 0 and not progress.unknown
            known = who, topic, partition, position, progress.handled, removed
            check(position <= self.through((topic, partition), removed), "a group skipped messages", *known)
        key = key_of(message.payload)
        check(
            self.sent.get(key) == (topic, message.payload),
            "a consumer got a message that no producer sent",
            who,
            topic,
            message.payload,
        )
        count = progress.times[key] = progress.times.get(key, 0) + 1
        if count == 1:
            newest = progress.newest.get(key[0], -1)
            # Of a message sent twice the first copy may be removed, and messages behind that copy be left.
            in_order = key[1] > newest or key in self.first_gone or key[0] in self.careless
            check(in_order, "a consumer got a partition's messages out of order", who, topic, partition, key, newest)
            progress.newest[key[0]] = max(key[1], newest)
            progress.boundaries.append(position)
        else:
            self.duplicates += 1
        progress.handled = max(progress.handled, message.next_position)
        progress.unknown = False
        if position <= self.through(
            (topic, partition), max(progress.reached, removed)
        ):  # else it was delivered in a former tenure
            progress.reached = max(progress.reached, message.next_position)

    def move(self, group: str, topic: str, partition: int, position: int) -> None:
        """Note a position moved by an operator."""
        self.progress(group, topic, partition).committed = position

    def commit(self, group: str, topic: str, partition: int, position: int) -> None:
        """Check and note a position committed in the tree."""
        self.commits += 1
        progress = self.progress(group, topic, partition)
        removed = self.removed.get((topic, partition), 0)
        known = group, topic, partition, position, progress.handled, progress.reached, progress.committed, removed
        come_to = self.through((topic, partition), max(progress.handled, removed))
        reached = self.through((topic, partition), max(progress.reached, removed))
        check(position <= come_to, "a commit of a position that no application had reached", *known)
        check(position <= reached, "a commit of messages that were handled in a former tenure", *known)
        check(position >= progress.committed, "a commit moved the position back", *known)
        progress.committed = position

    def remove(self, topic: str, partition: int, position: int, payloads: list[bytes], left: list[bytes]) -> None:
        """Note that retention has removed ``payloads``, which were before ``position``; ``left`` remain."""
        self.removed[topic, partition] = max(position, self.removed.get((topic, partition), 0))
        self.removed_payloads.setdefault((topic, partition), []).extend(payloads)
        self.first_gone.update(map(key_of, payloads))
        self.gone.update({key_of(payload) for payload in payloads}.difference(map(key_of, left)))

    def replace(
        self, topic: str, partition: int, start: int, end: int, payloads: list[bytes], left: list[bytes]
    ) -> None:
        """Note that a repair has replaced a range with ``payloads`` by gaps; ``left`` remain."""
        others = self.gaps.get((topic, partition), ())
        apart = [each for each in others if not start <= each[0] < end]  # a gap takes the place of those inside it
        self.gaps[topic, partition] = sorted([*apart, (start, end)])
        for places in self.groups.values():
            progress = places.get((topic, partition))
            if progress is not None and progress.committed >= end:
                progress.past.add((start, end))
        self.lost_payloads.setdefault((topic, partition), []).extend(payloads)
        self.first_gone.update(map(key_of, payloads))
        self.gone.update({key_of(payload) for payload in payloads}.difference(map(key_of, left)))

    def pass_bomb(self, place: Place, start: int, end: int) -> None:
        """Note a wrapper that a reader refused as too large; the ledger does not know its messages."""
        self.bombs.setdefault(place, set()).add((start, end))

    def through(self, place: Place, position: int) -> int:
        """Return the position of a reader at ``position`` once it has passed the gaps and bombs that follow."""
        for start, end in sorted([*self.gaps.get(place, ()), *self.bombs.get(place, ())]):
            if start <= position < end:
                position = end
        return position

    def missing(self, group: str, topics: frozenset[str] | None = None) -> list[Key]:
        """Return the acknowledged messages, of ``topics`` or of all, that a group has not handled."""
        progress = self.groups.get(group, {})
        return [
            key
            for key, place in self.acknowledged.items()
            if (topics is None or place[0] in topics)
            and key not in self.gone
            and key not in (progress[place].times if place in progress else ())
        ]

    def check_complete(self, group: str, topics: frozenset[str] | None = None) -> None:
        """Check that a group has handled every acknowledged message."""
        missing = self.missing(group, topics)
        if missing:
            raise Violation(
                f"{group} never got {len(missing)} acknowledged messages, first "
                f"{missing[0]} in {self.acknowledged[missing[0]]}"
            )

    def check_reported(self, group: str, jumps: int, gaps: int) -> None:
        """Check that a group's streams have counted each jump over removed messages, and each gap."""
        skips, gap_skips = self.skips[group], self.gap_skips[group]
        check(skips <= jumps, "a group skipped removed messages without counting them", group, skips, jumps)
        check(gap_skips <= gaps, "a group skipped gaps without counting them", group, gap_skips, gaps)

    def check_logs(self, logs: Mapping[Place, list[bytes]]) -> None:
        """Check that the final logs, with the removed messages before them, hold all acknowledged ones in order."""
        found: dict[Key, Place] = {}
        for place, payloads in logs.items():
            newest: dict[str, int] = {}
            for payload in [*self.removed_payloads.get(place, ()), *payloads]:
                key = key_of(payload)
                check(
                    self.sent.get(key) == (place[0], payload),
                    "a log has a message that no producer sent",
                    place,
                    payload,
                )
                if key not in found:
                    found[key] = place
                    in_order = key[1] > newest.get(key[0], -1) or key[0] in self.careless or key in self.first_gone
                    check(in_order, "a log is out of order", place, key, newest.get(key[0]))
                    newest[key[0]] = max(key[1], newest.get(key[0], -1))
        for place, payloads in self.lost_payloads.items():
            for payload in payloads:
                found.setdefault(key_of(payload), place)
        for key, place in self.acknowledged.items():
            check(found.get(key) == place, "an acknowledged message is not in its log", key, place, found.get(key))
