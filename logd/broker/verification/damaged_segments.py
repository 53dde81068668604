"""The damaged segments of one broker's logs: what is known of each, until it is sound or gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define, field

from logd.log.partition import PartitionLog
from logd.plurals import counted

if TYPE_CHECKING:
    from logd.log.damage.kinds import Damage

#: Topic, partition, and the position at which the segment begins.
SegmentKey = tuple[str, int, int]


@define(eq=False)
class DamagedSegment:
    """One segment with damage."""

    log: PartitionLog
    start: int
    damages: tuple[Damage, ...]
    #: The file position up to which the segment was verified.
    verified: int
    #: The state of its healing, as text; empty while nothing is done about it.
    healing: str = ""
    #: The reason why it could not be healed, as logged last.
    trouble: str = ""

    @property
    def key(self) -> SegmentKey:
        """The key among all segments."""
        return self.log.topic, self.log.partition, self.start

    @property
    def size(self) -> int:
        """The number of damaged bytes."""
        return sum(damage.size for damage in self.damages)

    @property
    def text(self) -> str:
        """The place and the reason of the first damage, and the size of all."""
        first = self.damages[0]
        more = f", and {counted(len(self.damages) - 1, 'more place')}" if len(self.damages) > 1 else ""
        return f"{counted(self.size, 'byte')} at position {self.start + first.position}{more}: {first.reason}"


@define(eq=False)
class DamagedSegments:
    """All damaged segments. Owner thread only, but for ``describe``."""

    #: Segments that were found damaged, one found again not counted.
    found: int = field(default=0, init=False)
    _segments: dict[SegmentKey, DamagedSegment] = field(factory=dict, init=False)

    def __len__(self) -> int:
        """Return the number of damaged segments."""
        return len(self._segments)

    def get(self, key: SegmentKey) -> DamagedSegment | None:
        """Return what is known of a damaged segment, None if it is not one."""
        return self._segments.get(key)

    def note(self, log: PartitionLog, start: int, damages: Sequence[Damage], verified: int) -> bool:
        """Take the outcome of a check of a segment, up to a file position; return whether unknown damage was found."""
        key = log.topic, log.partition, start
        if not damages:
            self._segments.pop(key, None)
            return False
        known = self._segments.get(key)
        if known is not None and known.log is log:
            known.damages, known.verified = tuple(damages), verified
            return False
        self._segments[key] = DamagedSegment(log, start, tuple(damages), verified)
        self.found += 1
        return True

    def forget(self, key: SegmentKey) -> None:
        """Forget a segment that is gone."""
        self._segments.pop(key, None)

    def forget_absent(self, logs: Sequence[PartitionLog]) -> None:
        """Forget the segments that are in none of ``logs`` any more."""
        here = set(logs)
        for key, each in list(self._segments.items()):
            if each.log not in here or not each.log.segment_list.begins_at(each.start):
                del self._segments[key]

    def describe(self) -> dict[str, str]:
        """Return the damage by partition, as text. May be called on any thread."""
        found: dict[str, str] = {}
        for each in list(self._segments.values()):
            text = f"{each.text}; {each.healing}" if each.healing else each.text
            name = f"{each.log.topic}-{each.log.partition}"
            found[name] = f"{found[name]}; {text}" if name in found else text
        return found
