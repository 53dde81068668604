"""The repair of a whole partition's folder while nothing else uses it."""

from __future__ import annotations

from attrs import define, field

from logd.interfaces import IFileOperations
from logd.log.damage.inspection import SegmentInspection, read_places
from logd.log.damage.kinds import Damage, DamageKind
from logd.log.damage.repair import hides_boundaries, make_gap_segment, may_cut, mend, remove_index
from logd.protocol.checksums import CHECKSUMS


@define
class FolderRepair:
    """The outcome: each damage with the start of its segment, and whether it is mended."""

    #: The log's end, lost bytes at the end included.
    end: int = 0
    damages: list[tuple[int, Damage, bool]] = field(factory=list)

    @property
    def is_sound(self) -> bool:
        """Return whether the only damage left is damage that the next start handles."""
        return all(mended or not damage.kind.is_wrong for _, damage, mended in self.damages)


def repair_folder(files: IFileOperations, folder: str, dry_run: bool, cut: bool) -> FolderRepair:
    """Check every entry of a partition and, unless ``dry_run`` is set, mend the damage.

    ``cut``: truncate the last segment at a damaged entry if nothing vouches for the entries behind it. Blocks; raises
    OSError.
    """
    places = read_places(files, folder)
    found = FolderRepair()
    if places.missing is not None:
        place, damage = places.missing.place, places.missing.damage
        if not dry_run:
            make_gap_segment(files, folder, place.start, damage.size)
        found.damages.append((place.start, damage, not dry_run))
        found.end = place.start + damage.size
    for place in places.segments:
        with SegmentInspection.open(files, place, CHECKSUMS, writable=not dry_run) as inspection:
            for _ in inspection.run():
                pass
            size = inspection.walk.size
            cuts = cut and not place.closed
            if not dry_run:
                mend(files, inspection.file, inspection.damages, cuts)
                wrong = any(remark.wrong for remark in inspection.index_remarks())
                if wrong or hides_boundaries(inspection.damages):
                    remove_index(files, place.index_path)
            for damage in inspection.damages:
                mended = not dry_run and (damage.kind.mendable or (cuts and may_cut(damage, size)))
                found.damages.append((place.start, damage, mended))
                if mended and damage.kind is DamageKind.UNVOUCHED:
                    size = damage.position
            found.end = place.start + max(size, place.end or 0)
    return found
