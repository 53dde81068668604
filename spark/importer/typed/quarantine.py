"""Messages that cannot be decoded: they are stored as they came, beside the data of their run and with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from logd.plurals import counted
from logd.spark.importer.targets.layout import QUARANTINE
from logd.spark.importer.targets.offsets import Loaded

#: The column for the reason in the files, and the source's column for the bytes while a run is loaded.
REASON = "reason"
PAYLOAD = "_payload"


def notices(loaded: Sequence[Loaded], run_folder: str) -> list[str]:
    """Return a notice about messages that cannot be decoded for each partition that has some."""
    return [
        f"{each.lineage}: {counted(each.quarantined, 'message')} of {each.messages} cannot be decoded and "
        f"{'is' if each.quarantined == 1 else 'are'} in {run_folder}/{QUARANTINE}, with the reason"
        for each in loaded
        if each.quarantined
    ]
