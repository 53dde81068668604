"""Runs of an import, made for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logd.spark.importer.targets.offsets import Lineage, Loaded, Lost, RunOffsets

A0 = Lineage("a", "uuid-a", 0)
A1 = Lineage("a", "uuid-a", 1)
AGAIN0 = Lineage("a", "uuid-of-another-a", 0)


def run_of(
    number: int,
    ranges: Mapping[Lineage, tuple[int, int]],
    before: RunOffsets | None = None,
    *,
    lost: Sequence[Lost] = (),
    uuid: str = "",
) -> RunOffsets:
    """Return run ``number``, which loaded ``ranges`` behind ``before``, of messages of ten bytes."""
    loaded = tuple(
        Loaded(lineage, start, end, (end - start) // 10, (end - start) // 10 * 10)
        for lineage, (start, end) in ranges.items()
    )
    positions = dict(before.positions if before is not None else {})
    for each in lost:
        if each.end >= 0:
            positions[each.lineage] = each.end
    positions.update({lineage: end for lineage, (_, end) in ranges.items()})
    return RunOffsets(
        run=number,
        uuid=uuid or f"run-{number}",
        previous_uuid=before.uuid if before is not None else "",
        began_ms=1_320_969_600_000,
        data={"format": "parquet", "codec": "zstd", "partition_by": ["topic"]},
        loaded=loaded,
        lost=tuple(lost),
        positions=positions,
    )
