"""The search for the position where entries continue behind an unsound one, by evidence and not by appearance.

Payloads may contain bytes that look like entries, and a gap may contain the entries that were removed. The anchor is
the next vouched position: one that an index, a segment's end or a checkpoint vouches for. These rules apply in order to
the unsound entry at ``position``:

1. If only the entry's length is damaged, its own checksum tells where it ends, since it matches for no other end. (The
   checksum of a gap covers only its length. There is exactly one length for which it matches.)
2. The entry's length is trusted if entries continue at its end and meet every vouched position. A wrong length would
   be trusted only if it pointed at an entry inside the payload and the payload or the checksum were damaged too.
   Otherwise rule 1 would have found the end.
3. Otherwise entries are kept only if they chain exactly up to the anchor, each of them sound or with an end found by
   rule 1 or 2. Everything before the first of them is given up.
4. Otherwise everything up to the anchor is given up.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, frozen

from logd.log.damage.entries import Entries
from logd.log.damage.kinds import DamageKind
from logd.protocol.entry import (
    CHECKSUM,
    LAYOUTS,
    LEAST_BYTES,
    LENGTH_BYTES,
    MAGIC_AT,
    MOST_HEAD_BYTES,
    Layout,
    head_pattern,
    size_by_length,
)

#: The search assumes that no entry, and so no payload, is longer than a frame of the default size. The number matters
#: only where neither the index nor the segment's end vouches for a nearer position.
LONGEST = 16 << 20
#: Bytes over which an entry's own checksum is computed to find its end: twice the default of message.bytes. This takes
#: 0.1 s for each damaged entry if no boundary is nearer.
OWN = 2 << 20
_BLOCK = 1 << 20
#: Entries that are checked behind an unsound one to verify its length.
_AHEAD = 1000
#: Unsound entries in a row whose ends are searched for by their own checksums, which is slow.
_DOUBTFUL = 8
_LOOKS_LIKE_HEAD = head_pattern()
#: The greatest distance from an entry's start to the first byte under its checksum, in entries whose payload may end
#: with an entry. Batches are none of them: the payload of a record is followed by its headers.
_PAYLOAD_AT = max(layout.checked_from for layout in LAYOUTS.values() if layout.own_size is None)


@frozen
class Resume:
    """The position at which entries continue, and the kind of the damage before it."""

    position: int
    kind: DamageKind


@define(eq=False)
class Evidence:
    """The evidence in one file. Positions are file positions. Every method may raise OSError."""

    entries: Entries

    def resume(self, position: int, anchor: int | None) -> Resume | None:
        """Return where entries continue behind the unsound one at ``position``, None without evidence.

        ``anchor`` is the next vouched position, None if there is none in this file.
        """
        own = self._own_end(position, anchor)
        if own:
            # If the length gives the same end, something else is wrong: the magic, or the fields.
            kind = DamageKind.PAYLOAD if own == self.entries.claimed_end(position) else DamageKind.LENGTH
            return Resume(own, kind)
        claimed = self._end_by_length(position)
        if claimed and self._goes_on(claimed, anchor):
            return Resume(claimed, DamageKind.PAYLOAD)
        found = self._search(position, anchor)
        if found is None:
            found = anchor
        return None if found is None else Resume(found, DamageKind.LENGTH)

    def _end_by_length(self, position: int) -> int:
        """Return the end of the entry by its length, whatever its magic is; 0 if no entry is so short."""
        size = size_by_length(self.entries.read(position, LENGTH_BYTES))
        return position + size if size else 0

    def _own_end(self, position: int, anchor: int | None) -> int:
        """Return the end for which the entry's own checksum matches, 0 if there is none."""
        data = self.entries.read(position, MOST_HEAD_BYTES)
        layout = LAYOUTS.get(data[MAGIC_AT]) if len(data) >= LEAST_BYTES else None
        if layout is None or len(data) < layout.head_bytes:
            return 0
        limit = self.entries.size if anchor is None else anchor
        if layout.own_size is not None:
            end = position + layout.own_size(data, 0)
            fits = position + LEAST_BYTES <= end <= limit
            if not fits or not (end == anchor or self.entries.claimed_end(end)):
                return 0
            # The checksum of a gap covers N alone, which tells this end; that of a batch covers the body.
            return end if layout.is_gap or self._body_holds(position, layout, end) else 0
        limit = min(limit, position + OWN)
        (crc,) = CHECKSUM.unpack_from(data, layout.checksum_at)
        checksum = self.entries.checksums[layout.checksum]
        at = position + layout.checked_from
        found = 0
        for end in self._places(at, limit, anchor):
            while at < end:
                piece = self.entries.read(at, min(_BLOCK, end - at))
                if not piece:
                    return 0
                found = checksum(piece, found)
                at += len(piece)
            if found == crc and self._is_likely_end(position, end, anchor):
                return end
        return 0

    def _body_holds(self, position: int, layout: Layout, end: int) -> bool:
        """Return whether the checksum matches the bytes that it covers, by the lengths in the entry's head."""
        head = self.entries.read(position, layout.head_bytes)
        if len(head) < layout.head_bytes or layout.checked_to is None:
            return False
        at, stop = position + layout.checked_from, position + layout.checked_to(head, 0)
        if not at <= stop <= end:
            return False
        checksum, found = self.entries.checksums[layout.checksum], 0
        while at < stop:
            piece = self.entries.read(at, min(_BLOCK, stop - at))
            if not piece:
                return False
            found = checksum(piece, found)
            at += len(piece)
        return found == int(CHECKSUM.unpack_from(head, layout.checksum_at)[0])

    def _is_likely_end(self, position: int, end: int, anchor: int | None) -> bool:
        """Return whether an entry may follow at ``end``, for which the checksum of the one at ``position`` matches."""
        if end == anchor:
            return True
        if end > position + _PAYLOAD_AT:
            return self.entries.claimed_end(end) > 0
        # The checksum of no bytes is 0, as in a run of zeros: a weak sign by itself, and none inside such a run.
        return any(self.entries.read(position, LENGTH_BYTES)) and self.entries.is_sound(end)

    def _places(self, position: int, limit: int, anchor: int | None) -> Iterator[int]:
        """Yield the positions in ``[position, limit]`` where an entry's head might be, and the anchor; ascending."""
        while position < limit:
            block = self.entries.file.read_at(position, min(_BLOCK, limit - position) + MAGIC_AT)
            for match in _LOOKS_LIKE_HEAD.finditer(block):
                if position + match.start() < limit:
                    yield position + match.start()
            position += _BLOCK
        if limit == anchor:
            yield limit

    def _goes_on(self, position: int, anchor: int | None) -> bool:
        """Return whether entries continue at ``position``: at least one sound, or a chain of lengths to the anchor.

        An unsound entry whose own checksum tells its end counts as an entry, too.
        """
        begin = position
        limit = self.entries.size if anchor is None else anchor
        unsound = sound = 0
        for _ in range(_AHEAD):
            if position == anchor:
                return True
            following = self._end_by_length(position)
            if self.entries.is_sound(position):
                if following > limit:
                    return False
                sound += 1
            elif not sound:
                unsound += 1
                if unsound <= _DOUBTFUL and self._own_end(position, anchor):
                    return True
            if not following or following > limit or position - begin > LONGEST:
                break
            position = following
        return sound > 0

    def _search(self, position: int, anchor: int | None) -> int | None:
        """Return the first position behind ``position`` from which entries chain exactly to the anchor, or None."""
        limit = self.entries.size if anchor is None else min(anchor, self.entries.size)
        tried = position + LEAST_BYTES
        for place in self._places(position + LEAST_BYTES, limit, None):
            if place < tried or not self._may_begin(place, anchor):
                continue
            dead_end = self._follow(place, anchor)
            if dead_end:
                # The chains from the sound entries on the way end at the same position.
                tried = max(dead_end, place) + 1
            elif place - position > _PAYLOAD_AT:
                return place
            else:
                # The chain begins exactly where the payload would. Either the entry was empty or the whole chain lies
                # inside its payload, and nothing tells which. Only a position too far away for a payload is outside.
                return self._first_behind(place, position + LONGEST, anchor)
        return None

    def _may_begin(self, place: int, anchor: int | None) -> bool:
        """Return whether a sound entry begins at ``place``; the cheap checks come first."""
        end = self.entries.claimed_end(place)
        if not end or (anchor is not None and end > anchor) or end > self.entries.size:
            return False
        return (end in (anchor, self.entries.size) or bool(self.entries.claimed_end(end))) and self.entries.is_sound(
            place
        )

    def _follow(self, place: int, anchor: int | None) -> int:
        """Follow the chain from ``place``; return 0 if it is vouched for, otherwise the position where it breaks."""
        position = place
        while True:
            if position == anchor:
                return 0
            if anchor is not None and position > anchor:
                return place
            if position - place > LONGEST:
                return 0  # no payload can hold so long a chain, so these are entries of the log
            following = self._step(position, anchor)
            if not following:
                return position
            position = following

    def _step(self, position: int, anchor: int | None) -> int:
        """Return the end of the entry at ``position`` if it is sound or its end is vouched for, otherwise 0."""
        if self.entries.is_sound(position):
            return self.entries.claimed_end(position)
        own = self._own_end(position, anchor)
        if own:
            return own
        claimed = self._end_by_length(position)
        return claimed if claimed and self._goes_on(claimed, anchor) else 0

    def _first_behind(self, place: int, bound: int, anchor: int | None) -> int | None:
        while place < bound:
            if place == anchor:
                return None
            place = self._step(place, anchor)
        return place
