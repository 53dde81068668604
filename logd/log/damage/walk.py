"""A walk over all entries of one segment that finds the damage, and the positions where sound entries continue.

The walk holds 1 MiB of the file, and the damage found since the last vouched position (one that the index or the
segment's end vouches for): there, apparent entries may turn out to be the contents of one entry.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from logd.log.damage.entries import Entries, Readable, contents_problem
from logd.log.damage.evidence import LONGEST, Evidence
from logd.log.damage.kinds import Damage, DamageKind
from logd.log.damage.uncached_file import StoredBytes
from logd.log.index.boundaries import Boundaries
from logd.plurals import counted
from logd.protocol import loops
from logd.protocol.checksums import Checksums
from logd.protocol.entry import LEAST_BYTES

_NEVER = 1 << 31
_BLOCK = 1 << 20
#: The problem of an entry that looks sound but cannot be one.
_PASSES = "a sound entry ends after the start of the next segment, or after the flushed end"
#: Damages that may wait for the next vouched position.
_MOST_WAITING = 100_000


@define(eq=False)
class SegmentWalk:
    """The walk over one segment's file, whose size at the beginning is ``size``.

    ``end`` is the file position where its entries end for certain, or its flushed entries; None if it is not known. The
    tail behind it may be torn, or must not exist if the segment is ``closed``.
    """

    file: StoredBytes
    size: int
    end: int | None
    closed: bool
    boundaries: Boundaries
    checksums: Checksums
    #: See ``Entries.readable``.
    readable: Readable | None = contents_problem
    #: The file position that the walk has reached.
    position: int = 0
    entries: int = 0
    gaps: int = 0
    gap_bytes: int = 0
    #: The first boundary of the index where no entry begins, -1 while index and entries agree.
    misplaced: int = -1
    _all: Entries = field(init=False)
    _evidence: Evidence = field(init=False)
    #: Start of the sound entry that ends at ``position``, -1 if there is none or something vouches for its end.
    _previous: int = -1
    #: Damages found since the last vouched position.
    _waiting: list[Damage] = field(factory=list)
    #: The next boundary's index in the list, and its file position.
    _next: int = 0
    _upcoming: int = 0

    def __attrs_post_init__(self) -> None:
        self._all = Entries(self.file, self.size, self.checksums, self.readable)
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
            self._give_up(self.end, f"the file's end lacks {counted(self.end - self.size, 'byte')}")
        yield from self._tell()
        if self.end is not None and self.size > self.end:
            yield from self._tail(self.end)

    def _read_block(self, limit: int) -> str:
        """Pass sound entries, about a block or up to a vouched position; return the problem of the next one."""
        base = self.position
        block = self.file.read_at(base, min(_BLOCK, limit - base))
        problem = self._scan(block)
        if problem or self.position > base:
            return problem
        # The entry is not complete in the block.
        problem = self._all.problem(base)
        end = self._all.claimed_end(base)
        if not problem and end > limit:
            problem = _PASSES
        if not problem:
            self._passes(base, end)
            self.entries += 1
            self._previous = base
            if self._all.is_gap(base):
                self.gaps += 1
                self.gap_bytes += end - base
            self.position = end
        return problem

    def _scan(self, block: bytes) -> str:
        """Check the entries that are complete in ``block``, which begins at the walk's position."""
        base = self.position
        while True:
            if self._upcoming <= self.position:
                self._pass_boundaries(self.position + 1)
            until = self._upcoming
            found = loops.scan_set(
                block, self.position - base, until - base, checksums=self.checksums, readable=self.readable
            )
            consumed, entries, _, problem, last, gaps, gap_bytes, _ = found
            if entries:
                self._previous = base + last
                self.position = base + consumed
                self.entries += entries
                self.gaps += gaps
                self.gap_bytes += gap_bytes
            if problem or self.position < until:
                return problem
            self._passes(self._previous, self.position)
            if self._waiting and self.position == self._upcoming:
                return ""  # a vouched position: the waiting damages are certain now

    # Vouched positions

    def _pass_boundaries(self, position: int) -> int:
        """Make the first boundary at or behind ``position`` the next one, and return it."""
        positions = self.boundaries.positions
        self._next = self.boundaries.at_or_after(position)
        self._upcoming = positions[self._next] if self._next < len(positions) else _NEVER << 32
        return self._upcoming

    def _is_vouched(self) -> bool:
        """Return whether something vouches for the walk's position."""
        return self.position in (self.end, self._upcoming)

    def _passes(self, position: int, end: int) -> None:
        """Pass the boundaries in the sound entry ``[position, end)``; the index is wrong if one lies inside it."""
        if self._upcoming <= position:
            self._pass_boundaries(position + 1)
        if self._upcoming < end:
            if self.misplaced < 0:
                self.misplaced = self._upcoming
            del self.boundaries.positions[:]
            self._pass_boundaries(0)

    def _anchor(self, position: int) -> int | None:
        """Return the first vouched position behind ``position``: a boundary with a sound entry, or the end."""
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
        """Record the unsound entry at the walk's position, and continue behind it; False if that is impossible."""
        position = self.position
        if problem is _PASSES:
            # The recorded end of the entries is wrong, and a sound entry is left as it is.
            size = (self.end or self.size) - position
            self._waiting.append(Damage(position, size, DamageKind.UNVOUCHED, problem))
            return False
        anchor = self._anchor(position)
        if anchor is not None and anchor - position < LEAST_BYTES:
            return self._give_up(anchor, problem)
        resume = self._evidence.resume(position, anchor)
        if resume is None:
            rest = self.size - position
            torn = self.size < self._all.claimed_end(position) <= position + LONGEST
            torn = torn or rest < LEAST_BYTES or not self._has_bytes(position)
            self._waiting.append(Damage(position, rest, DamageKind.TAIL if torn else DamageKind.UNVOUCHED, problem))
            return False
        if resume.position > self.size:
            return self._give_up(resume.position, problem)
        self._waiting.append(Damage(position, resume.position - position, resume.kind, problem))
        self._go_to(resume.position)
        return True

    def _give_up(self, anchor: int, problem: str) -> bool:
        """Make one damage of everything from the walk's position to a vouched position."""
        position = self.position
        if anchor - position < LEAST_BYTES and self._waiting:
            # The chain since the last damage does not meet the vouched position, so it was no chain of entries.
            position = self._waiting.pop().position
        elif anchor - position < LEAST_BYTES and self._previous >= 0:
            # Nor was the last entry one, however sound it looks: there is no room for another before that position.
            position = self._previous
            self.entries -= 1
        kind = DamageKind.SHORT if anchor > self.size else DamageKind.LENGTH
        if anchor - position < LEAST_BYTES:
            kind = DamageKind.UNVOUCHED  # too short for a gap
        self._waiting.append(Damage(position, anchor - position, kind, problem))
        self._go_to(anchor)
        return True

    def _go_to(self, position: int) -> None:
        self.position = position
        self._previous = -1
        self._pass_boundaries(position)

    def _has_bytes(self, position: int) -> bool:
        """Return whether any byte behind ``position`` is not zero."""
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
        """Check the bytes behind the end."""
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
