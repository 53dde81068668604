"""The repair of damaged entries by gaps. After a crash at any step, another repair finishes the work.

The order of the steps makes that possible:

0. An entry whose checksum matches but that cannot be read here is saved in a file of its own: another reader, or a
   person, may recover its contents.
1. A file that is too short is lengthened. The zeros at its end are no entry, and a repeated repair makes the same gap.
2. The heads of the gaps are written, nine bytes each, and nothing behind them. The evidence for the end of a damaged
   entry (its checksum, its length, or entries that chain up to a vouched position) lies behind the head. So those bytes
   must not change while a crash may still bring back an old head, whole or in part. In a head torn between old and new,
   the new length or the new checksum (a gap's checksum fits one length only) tells the same end, or the old evidence is
   still valid.
3. fdatasync: from here on the bytes behind the heads mean nothing.
4. Holes are punched under large gaps. A crash may undo this, and nothing depends on it.
5. The modification time is restored, since retention depends on it. After a crash before this step the segment is kept
   longer.
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

#: The least size of a gap with a hole under it: a fragmented file costs more than the blocks saved.
HOLE_BYTES = 1 << 16
_PAGE = 4096
#: The greatest size of one gap, whose length is an int32; a larger damage becomes several gaps.
_LARGEST_GAP = 1 << 30


@frozen
class Mended:
    """The outcome of the repair of one segment."""

    gaps: int = 0
    gap_bytes: int = 0
    cut_bytes: int = 0
    #: Entries that were saved in files of their own.
    kept: int = 0


def mend(files: IFileOperations, file: IFile, damages: Sequence[Damage], cut: bool = False) -> Mended:
    """Mend the damages; with ``cut``, also truncate the file where nothing vouches for the entries that follow.

    ``file`` is open for writing. The changes are durable on return. Blocks; raises OSError.
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
    """Save each damaged entry whose checksum matches in a file beside the segment, durably; return their number."""
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
    """Make the segment that begins at position ``start`` of gaps that fill ``size`` bytes, which takes next to no room.

    The segment is durable on return. It has the modification time of the oldest segment, so that retention removes it
    in its turn. Blocks; raises OSError, and then there is no such segment.
    """
    path = join(folder, segment_name(start))
    temporary = path + TEMPORARY_SUFFIX
    others = [join(folder, name) for name in files.list(folder) if segment_start(name) is not None]
    for stale in (temporary, join(folder, index_name(start))):  # the index belongs to the lost segment
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
    """Return whether a damage can be cut off: nothing vouches for the bytes from it to the file's end at ``size``."""
    return damage.kind is DamageKind.UNVOUCHED and damage.end == size


def hides_boundaries(damages: Sequence[Damage]) -> bool:
    """Return whether mending these damages makes the segment's index invalid, since entry boundaries disappear.

    A boundary in the middle of a gap would lead readers to the bytes of a removed entry.
    """
    return any(damage.kind in (DamageKind.LENGTH, DamageKind.SHORT) for damage in damages)


def remove_index(files: IFileOperations, path: str) -> None:
    """Remove an invalid index, which is rebuilt when it is needed. Durable on return; raises OSError."""
    if files.exists(path):
        files.remove(path)
        files.sync_directory(path.rpartition("/")[0])


def _gaps(damage: Damage) -> list[tuple[int, int]]:
    """Return (file position, size) of each gap that fills a damage: one, unless the damage is too large for one."""
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
