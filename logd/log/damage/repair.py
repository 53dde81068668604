"""Makes gaps in the place of damaged entries. Every step can be repeated: a crash is followed by another repair.

The order is what makes that so:

0. an entry whose checksum holds, and which no codec here can open, is kept in a file of its own: another reader, or a
   person, may make something of its bytes;
1. a file that is too short is lengthened: the zeros that it then has are no entry, and the same gap is made of them;
2. the heads of the gaps are written, nine bytes each, and nothing behind them. What tells where a damaged entry ends,
   its own checksum, its length, or entries that chain up to a vouched place, is in the bytes behind the head; so they
   must not be touched while a crash may still bring an old head back, whole or in part. Of a head torn between old and
   new, the new length or the new checksum (that of a gap fits one length only) says the same as before, or the old
   evidence still holds;
3. fdatasync: from here on the bytes behind the heads mean nothing;
4. holes are punched under large gaps. A crash may undo it, and nothing depends on it;
5. the time of last change is put back, for retention goes by it. A crash before that lets the segment live longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from logd.interfaces import IFile, IFileOperations
from logd.log.damage.entries import Entries
from logd.log.damage.kinds import Damage, DamageKind
from logd.log.disk.atomic import replace_file
from logd.log.disk.names import TEMPORARY_SUFFIX, index_name, join, kept_entry_name, segment_name, segment_start
from logd.protocol.entry import LEAST_BYTES, encode_gap

#: Under a smaller gap there is no hole: a file in many pieces costs more than its blocks.
HOLE_BYTES = 1 << 16
_PAGE = 4096
#: A gap's length is an int32; what is larger becomes several.
_LARGEST_GAP = 1 << 30


@frozen
class Mended:
    """What was done to one segment."""

    gaps: int = 0
    gap_bytes: int = 0
    cut_bytes: int = 0
    #: Entries that were kept in files of their own.
    kept: int = 0


def mend(files: IFileOperations, file: IFile, damages: Sequence[Damage], cut: bool = False) -> Mended:
    """Mend the damages that can be; with ``cut``, also cut the file where nothing vouches for what follows.

    ``file`` is open for writing. On return it lasts. Blocks; raises OSError.
    """
    gaps = [gap for damage in damages if damage.kind <= DamageKind.SHORT for gap in _gaps(damage)]
    cuts = [each for each in damages if each.kind is DamageKind.EXCESS or (cut and may_cut(each, file.size()))]
    if not gaps and not cuts:
        return Mended()
    kept = _keep_entries(files, file, damages)
    modified = files.modified(file.path)
    end = max((position + size for position, size in gaps), default=0)
    if end > file.size():
        file.truncate(end)
    for position, size in gaps:
        file.write_at(position, encode_gap(size))
    if cuts:
        file.truncate(cuts[0].position)
    file.sync_data()
    for position, size in gaps:
        if size >= HOLE_BYTES:
            first = -(-(position + LEAST_BYTES) // _PAGE) * _PAGE
            file.punch_hole(first, (position + size) // _PAGE * _PAGE - first)
    files.set_modified(file.path, modified)
    return Mended(len(gaps), sum(size for _, size in gaps), sum(damage.size for damage in cuts), kept)


def _keep_entries(files: IFileOperations, file: IFile, damages: Sequence[Damage]) -> int:
    """Write each entry whose checksum holds to a file beside the segment, lastingly; return how many there were."""
    folder, _, name = file.path.rpartition("/")
    start = segment_start(name)
    entries = Entries(file, file.size())
    kept = 0
    for damage in damages:
        if damage.kind is DamageKind.PAYLOAD and start is not None and not entries.checksum_problem(damage.position):
            content = file.read_at(damage.position, damage.size)
            replace_file(files, folder, kept_entry_name(start + damage.position), content)
            kept += 1
    return kept


def make_gap_segment(files: IFileOperations, folder: str, start: int, size: int) -> None:
    """Make the segment that begins at position ``start`` of gaps that fill ``size`` bytes; it takes next to no room.

    On return it lasts. Its time of last change is that of the oldest segment, so that retention lets it go in its turn.
    Blocks; raises OSError, and then there is no such segment.
    """
    path = join(folder, segment_name(start))
    temporary = path + TEMPORARY_SUFFIX
    others = [join(folder, name) for name in files.list(folder) if segment_start(name) is not None]
    for stale in (temporary, join(folder, index_name(start))):  # the index is that of the lost segment
        if files.exists(stale):
            files.remove(stale)
    file = files.open(temporary, create=True)
    try:
        file.truncate(size)
        for position, gap_size in _gaps(Damage(0, size, DamageKind.MISSING, "")):
            file.write_at(position, encode_gap(gap_size))
        file.sync_data()
    finally:
        file.close()
    if others:
        files.set_modified(temporary, files.modified(others[0]))
    files.rename(temporary, path)
    files.sync_directory(folder)


def may_cut(damage: Damage, size: int) -> bool:
    """Return whether a damage can be cut away: nothing vouches for what follows, up to the file's end at ``size``."""
    return damage.kind is DamageKind.UNVOUCHED and damage.end == size


def hides_boundaries(damages: Sequence[Damage]) -> bool:
    """Return whether mending these damages makes the segment's index invalid, since entry boundaries disappear.

    A boundary in the middle of a gap would lead readers to the bytes of a removed entry.
    """
    return any(damage.kind in (DamageKind.LENGTH, DamageKind.SHORT) for damage in damages)


def remove_index(files: IFileOperations, path: str) -> None:
    """Remove an index that is wrong: it is made again when it is needed. Lasting on return; raises OSError."""
    if files.exists(path):
        files.remove(path)
        files.sync_directory(path.rpartition("/")[0])


def _gaps(damage: Damage) -> list[tuple[int, int]]:
    """Return position and size of the gaps that fill a damage: one, unless it is too large for one."""
    gaps = []
    position = damage.position
    while damage.end - position > 2 * _LARGEST_GAP:
        gaps.append((position, _LARGEST_GAP))
        position += _LARGEST_GAP
    if damage.end - position > _LARGEST_GAP:
        half = (damage.end - position) // 2
        gaps.append((position, half))
        position += half
    gaps.append((position, damage.end - position))
    return gaps
