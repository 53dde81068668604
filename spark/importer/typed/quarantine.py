"""Messages that cannot be decoded: they are stored as they came, with the reason, beside the data of their run.

In a table they are rows: a file beside the table's would be none of its snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

from logd.plurals import counted
from logd.spark.importer.targets.layout import QUARANTINE
from logd.spark.importer.targets.offsets import Loaded

#: The column for the reason in the files, and the source's column for the bytes while a run is loaded.
REASON = "reason"
PAYLOAD = "_payload"
#: The column for the bytes in a table.
TABLE_PAYLOAD = "payload"


def notices(loaded: Sequence[Loaded], run_folder: str | None) -> list[str]:
    """Return a notice about messages that cannot be decoded for each partition that has some.

    ``run_folder``: the run's, None for a table.
    """
    if run_folder is None:
        places = [f"{has} the reason in column {REASON}, and no value" for has in ("has", "have")]
    else:
        places = [f"{verb} in {run_folder}/{QUARANTINE}, with the reason" for verb in ("is", "are")]
    return [
        f"{each.lineage}: {counted(each.quarantined, 'message')} of {each.messages} cannot be decoded and "
        f"{places[each.quarantined != 1]}"
        for each in loaded
        if each.quarantined
    ]
