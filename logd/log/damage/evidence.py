"""The search for the place where entries go on behind an unsound one: by evidence, never by looks.

Payloads may contain bytes that look like entries, and the inside of a gap may be what was removed. So, of the entry at
``position`` and the next place ``anchor`` that an index, a segment's end or a checkpoint vouches for:

1. its own checksum tells where it ends, when nothing but the length is damaged: behind no other byte would it hold.
   (The checksum of a gap covers its length alone; there is exactly one length for which it holds.)
2. its length is true, when entries go on where it ends and pass no vouched place without meeting it. For a wrong length
   to be believed, it would have to point at an entry inside the payload while that payload, or the checksum, is
   damaged too: else its checksum had told.
3. otherwise entries are kept only if they chain, each sound or with its end vouched for in one of these two ways,
   exactly up to the anchor; all before the first of them is given up.
4. otherwise everything up to the anchor is.
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
    head_pattern,
    size_by_length,
)

#: No longer entry than a frame of the default size is looked for, and so nothing that lies inside a payload is longer.
#: Only where the index or the segment's end does not vouch for anything nearer does this number matter.
LONGEST = 16 << 20
#: So far the own checksum of an entry is followed to find its end: twice the default of message.bytes. It takes 0.1 s
#: for each damaged entry where no boundary is nearer.
OWN = 2 << 20
_BLOCK = 1 << 20
#: Entries that are looked at behind one that is not sound, to see whether its length is true.
_AHEAD = 1000
#: Of so many entries in a row that are not sound their own checksums are asked; that takes a while.
_DOUBTFUL = 8
_LOOKS_LIKE_HEAD = head_pattern()
#: The payload of no entry begins further behind its start.
_PAYLOAD_AT = max(layout.checked_from for layout in LAYOUTS.values())


@frozen
class Resume:
    """Entries go on at ``position``; what is before it is damaged in this way."""

    position: int
    kind: DamageKind


@define(eq=False)
class Evidence:
    """Looks around in one file. Every method may raise OSError."""

    entries: Entries

    def resume(self, position: int, anchor: int | None) -> Resume | None:
        """Return where entries go on behind the unsound one at ``position``; None when nothing vouches for a place.

        ``anchor`` is the next vouched place, None when there is none in this file.
        """
        own = self._own_end(position, anchor)
        if own:
            # Where that is where its length says, something else is wrong: the magic, or the fields.
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
        """Return where the entry ends if its length is true, whatever its magic is; 0 if no entry is so short."""
        size = size_by_length(self.entries.read(position, LENGTH_BYTES))
        return position + size if size else 0

    def _own_end(self, position: int, anchor: int | None) -> int:
        """Return where the entry's own checksum says that it ends, 0 when it says nothing."""
        data = self.entries.read(position, MOST_HEAD_BYTES)
        layout = LAYOUTS.get(data[MAGIC_AT]) if len(data) >= LEAST_BYTES else None
        if layout is None or len(data) < layout.checksum_at + CHECKSUM.size:
            return 0
        limit = self.entries.size if anchor is None else anchor
        if layout.own_size is not None:
            end = position + layout.own_size(data, 0)
            fits = position + LEAST_BYTES <= end <= limit
            return end if fits and (end == anchor or self.entries.claimed_end(end)) else 0
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

    def _is_likely_end(self, position: int, end: int, anchor: int | None) -> bool:
        """Return whether an entry may follow at ``end``, where the checksum of the one at ``position`` holds."""
        if end == anchor:
            return True
        if end > position + _PAYLOAD_AT:
            return self.entries.claimed_end(end) > 0
        # Of no bytes the checksum is 0, as in any row of zeros: that alone says little, and nothing in such a row.
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
        """Return whether entries go on at ``position``: at least one sound, or all by their lengths up to the anchor.

        One that is not sound, but whose own checksum tells where it ends, is an entry too.
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
        """Return the first place behind ``position`` from which entries chain exactly to the anchor; None: no such."""
        limit = self.entries.size if anchor is None else min(anchor, self.entries.size)
        tried = position + LEAST_BYTES
        for place in self._places(position + LEAST_BYTES, limit, None):
            if place < tried or not self._may_begin(place, anchor):
                continue
            dead_end = self._follow(place, anchor)
            if dead_end:
                # The sound entries up to there lead there too, and nowhere else.
                tried = max(dead_end, place) + 1
            elif place - position > _PAYLOAD_AT:
                return place
            else:
                # It begins right where a payload would: then the entry was empty, or what chains is all inside of it,
                # and nothing tells which. Only what is too far away to be inside of one entry is surely outside.
                return self._first_behind(place, position + LONGEST, anchor)
        return None

    def _may_begin(self, place: int, anchor: int | None) -> bool:
        """Return whether a sound entry begins at ``place``; by the cheap signs first."""
        end = self.entries.claimed_end(place)
        if not end or (anchor is not None and end > anchor) or end > self.entries.size:
            return False
        return (end in (anchor, self.entries.size) or bool(self.entries.claimed_end(end))) and self.entries.is_sound(
            place
        )

    def _follow(self, place: int, anchor: int | None) -> int:
        """Follow the chain from ``place``; return 0 when it is vouched for, else where it breaks off."""
        position = place
        while True:
            if position == anchor:
                return 0
            if anchor is not None and position > anchor:
                return place
            if position - place > LONGEST:
                return 0  # no entry has room for a chain of that length: it has left the payload that it may be in
            following = self._step(position, anchor)
            if not following:
                return position
            position = following

    def _step(self, position: int, anchor: int | None) -> int:
        """Return where the entry at ``position`` ends, if it is sound or its end is vouched for; else 0."""
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
