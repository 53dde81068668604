"""A walk over all entries of one segment that says what is damaged, and where the entries that are sound go on.

It holds 1 MiB of the file at a time, and what was found since the last place that something vouches for: at such a
place it may turn out that what seemed to be entries was the inside of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from attrs import define, field

from logd.interfaces import IFile
from logd.log.boundaries import Boundaries
from logd.log.damage import Damage, DamageKind
from logd.log.entries import GAP, LEAST, MINIMUM, Entries, contents_problem
from logd.log.resuming import LONGEST, Evidence
from logd.protocol.checksums import Checksum

_HEAD = Struct(">iBI")
_WRAPPER_CRC = Struct(">I")
_NEVER = 1 << 31
_BLOCK = 1 << 20
#: Said of a sound entry that cannot be one.
_PASSES = "a sound entry reaches over the place where the next segment begins, or up to which all is flushed"
#: Damages that may wait for the next vouched place.
_MOST_WAITING = 100_000


@define(eq=False)
class SegmentWalk:
    """One segment's file, as it was when ``size`` was asked.

    ``end`` is the position where its entries surely end, or where what is known to be flushed does; None when nothing
    says. Behind it there is a tail, which may be torn, or which must not be there (``closed``).
    """

    file: IFile
    size: int
    end: int | None
    closed: bool
    boundaries: Boundaries
    checksum: Checksum
    #: Up to where it has come.
    position: int = 0
    entries: int = 0
    gaps: int = 0
    gap_bytes: int = 0
    #: The first boundary of the index where no entry begins, -1 while they agree.
    misplaced: int = -1
    _all: Entries = field(init=False)
    _evidence: Evidence = field(init=False)
    #: Where the sound entry begins that ends at ``position``, -1 if there is none or something vouches for its end.
    _previous: int = -1
    #: Found since the last vouched place.
    _waiting: list[Damage] = field(factory=list)
    #: Index of the next boundary, and its position.
    _next: int = 0
    _upcoming: int = 0

    def __attrs_post_init__(self) -> None:
        self._all = Entries(self.file, self.size, self.checksum)
        self._evidence = Evidence(self._all)
        self._pass_boundaries(0)

    def run(self) -> Iterator[Damage | None]:
        """Yield each damage by ascending position, and None after each block in between. Raises OSError."""
        flushed = self.size if self.end is None else min(self.end, self.size)
        while self.position < flushed:
            problem = self._read_block(flushed)
            if problem and not self._damaged(problem):
                yield from self._tell()
                return
            if self._waiting and (self._is_vouched() or len(self._waiting) >= _MOST_WAITING):
                yield from self._tell()
            yield None
        if self.end is not None and self.position < self.end:
            self._give_up(self.end, f"{self.end - self.size} bytes are missing at the file's end")
        yield from self._tell()
        if self.end is not None and self.size > self.end:
            yield from self._tail(self.end)

    def _read_block(self, limit: int) -> str:
        """Go on over sound entries, about a block of them or up to a vouched place; return why the next one is not."""
        base = self.position
        block = self.file.read_at(base, min(_BLOCK, limit - base))
        problem = self._scan(block)
        if problem or self.position > base:
            return problem
        # It does not lie wholly in the block.
        problem = self._all.problem(base)
        end = self._all.claimed_end(base)
        if not problem and end > limit:
            problem = _PASSES
        if not problem:
            self._passes(base, end)
            self.entries += 1
            self._previous = base
            if self._all.read(base + 4, 1)[0] == GAP:
                self.gaps += 1
                self.gap_bytes += end - base
            self.position = end
        return problem

    def _scan(self, block: bytes) -> str:
        """Check the entries that lie wholly in ``block``, which begins where the walk is."""
        view = memoryview(block)
        size = len(block)
        base = self.position
        checksum = self.checksum
        unpack = _HEAD.unpack_from
        minimum = MINIMUM
        upcoming = self._upcoming - base
        entries = at = 0
        previous = -1
        problem = ""
        while size - at >= LEAST:
            length, magic, crc = unpack(block, at)
            stop = at + 4 + length
            if length < minimum.get(magic, _NEVER):
                problem = f"no entry has length {length} and magic {magic}"
                break
            if stop > size:
                break
            if not magic:
                sound = checksum(view[at + 9 : stop]) == crc
            elif magic == 1:
                sound = checksum(view[at + 10 : stop]) == _WRAPPER_CRC.unpack_from(block, at + 6)[0]
                if sound and block[at + 5]:
                    problem = contents_problem(view, at, stop)
                    if problem:
                        break
            elif magic == GAP:
                sound = checksum(view[at : at + 4]) == crc
            else:
                sound = checksum(view[at + 9 : stop]) == crc
                if sound:
                    problem = contents_problem(view, at, stop)
                    if problem:
                        break
            if not sound:
                problem = "the checksum does not hold"
                break
            if stop >= upcoming:
                self._passes(base + at, base + stop)
                upcoming = self._upcoming - base
                if self._waiting and stop == upcoming:
                    size = 0  # a vouched place: what waits can be told
            if magic == GAP:
                self.gaps += 1
                self.gap_bytes += length + 4
            entries += 1
            previous = at
            at = stop
        if entries:
            self._previous = base + previous
        self.entries += entries
        self.position = base + at
        return problem

    # Vouched places

    def _pass_boundaries(self, position: int) -> int:
        """Take the first boundary that is not before ``position`` as the next one; return it."""
        positions = self.boundaries.positions
        self._next = self.boundaries.at_or_after(position)
        self._upcoming = positions[self._next] if self._next < len(positions) else _NEVER << 32
        return self._upcoming

    def _is_vouched(self) -> bool:
        """Whether something vouches for the place where the walk is."""
        return self.position in (self.end, self._upcoming)

    def _passes(self, position: int, end: int) -> None:
        """Pass the boundaries in ``[position, end)``, a sound entry; if it lies over one, the index is wrong."""
        if self._upcoming <= position:
            self._pass_boundaries(position + 1)
        if self._upcoming < end:
            if self.misplaced < 0:
                self.misplaced = self._upcoming
            del self.boundaries.positions[:]
            self._pass_boundaries(0)

    def _anchor(self, position: int) -> int | None:
        """Return the first vouched place behind ``position``: one where a sound entry begins, or the end."""
        positions = self.boundaries.positions
        for number in range(self.boundaries.after(position), len(positions)):
            place = positions[number]
            if self.end is not None and place >= self.end:
                break
            if self._all.is_sound(place):
                return place
        return self.end

    # Damage

    def _damaged(self, problem: str) -> bool:
        """Note the unsound entry at the walk's position, and go on behind it; False when there is nowhere to go."""
        position = self.position
        if problem is _PASSES:
            # What says where the entries end is wrong, and nothing is done about an entry that is sound.
            size = (self.end or self.size) - position
            self._waiting.append(Damage(position, size, DamageKind.UNVOUCHED, problem))
            return False
        anchor = self._anchor(position)
        if anchor is not None and anchor - position < LEAST:
            return self._give_up(anchor, problem)
        resume = self._evidence.resume(position, anchor)
        if resume is None:
            rest = self.size - position
            torn = self.size < self._all.claimed_end(position) <= position + LONGEST
            torn = torn or rest < LEAST or not self._has_bytes(position)
            self._waiting.append(Damage(position, rest, DamageKind.TAIL if torn else DamageKind.UNVOUCHED, problem))
            return False
        if resume.position > self.size:
            return self._give_up(resume.position, problem)
        self._waiting.append(Damage(position, resume.position - position, resume.kind, problem))
        self._go_to(resume.position)
        return True

    def _give_up(self, anchor: int, problem: str) -> bool:
        """Make one damage of everything from the walk's position to a vouched place."""
        position = self.position
        if anchor - position < LEAST and self._waiting:
            # What chained from the last damage to here does not meet the vouched place, so it was no chain of entries.
            position = self._waiting.pop().position
        elif anchor - position < LEAST and self._previous >= 0:
            # Nor was the last entry one, however sound it looks: its end leaves no room for another before that place.
            position = self._previous
            self.entries -= 1
        kind = DamageKind.SHORT if anchor > self.size else DamageKind.LENGTH
        if anchor - position < LEAST:
            kind = DamageKind.UNVOUCHED  # no gap is so short
        self._waiting.append(Damage(position, anchor - position, kind, problem))
        self._go_to(anchor)
        return True

    def _go_to(self, position: int) -> None:
        self.position = position
        self._previous = -1
        self._pass_boundaries(position)

    def _has_bytes(self, position: int) -> bool:
        """Whether there is anything but zeros behind ``position``."""
        while position < self.size:
            piece = self.file.read_at(position, min(_BLOCK, self.size - position))
            if not piece or piece.count(0) < len(piece):
                return bool(piece)
            position += len(piece)
        return False

    def _tell(self) -> Iterator[Damage]:
        waiting, self._waiting = self._waiting, []
        yield from waiting

    def _tail(self, position: int) -> Iterator[Damage | None]:
        """Look at what lies behind the end."""
        if self.closed:
            size = self.size - position
            yield Damage(position, size, DamageKind.EXCESS, "the next segment begins there")
            return
        del self.boundaries.positions[:]
        self._pass_boundaries(0)
        self.position = position
        while self.position < self.size:
            problem = self._read_block(self.size)
            if problem:
                yield Damage(self.position, self.size - self.position, DamageKind.TAIL, problem)
                return
            yield None
