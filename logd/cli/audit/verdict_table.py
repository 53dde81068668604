"""The table of ``logd audit --parquet``: a folder of Parquet that grows from run to run, with one file for each date.

::

    DIR/date=2011-11-11/verdicts.parquet    the verdicts on the windows that begin on this date (UTC)
    DIR/_lock                               held while a run writes

A run replaces the files of the dates that it has judged, each in one step, so that readers see a date before or after
it. Rows that it has not judged stay, and so do rows that it judged by fewer events: topic ``_audit`` keeps its events
for a time only, and the table is to keep the verdicts for years.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from logd.audit.verdict_fields import as_fields
from logd.audit.verdicts import Verdict
from logd.errors import LogdError

FILE = "verdicts.parquet"
#: The columns that name a row.
KEY = ("topic", "window", "width", "cluster", "tier", "group", "source")
_COUNTS = ("expected", "seen", "missing", "duplicated", "unaccounted")
_LOCK = "_lock"
#: The date of windows that no calendar has, as Hive and Spark name a partition without a value.
_NO_DATE = "__HIVE_DEFAULT_PARTITION__"

#: A row by the names of its columns; the window is in ms.
Row = dict[str, Any]


def write_verdicts(verdicts: Sequence[Verdict], folder: str) -> None:
    """Add verdicts to the table in ``folder``, which is made if there is none. Blocks while another run writes.

    Raises LogdError without pyarrow, for a file that cannot be read, and for windows of another width than the table's.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise LogdError("--parquet needs pyarrow: pip install pyarrow") from None
    rows = sorted((as_fields(verdict) for verdict in verdicts), key=lambda row: date_of(row["window"]))
    try:
        os.makedirs(folder, exist_ok=True)
        with _locked(os.path.join(folder, _LOCK)):
            for date, group in groupby(rows, lambda row: date_of(row["window"])):
                _add(list(group), os.path.join(folder, f"date={date}"))
    except OSError as error:
        raise LogdError(f"--parquet {folder}: {error}") from error


def date_of(window: int) -> str:
    """Return the date on which a window begins, in UTC."""
    try:
        return datetime.fromtimestamp(window // 1000, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return _NO_DATE


def joined(former: Iterable[Row], latest: Iterable[Row]) -> list[Row]:
    """Return the rows of both, in order; of two with one name that of the latest, unless it is from fewer events.

    The counts of a window grow with the events that are known of it. A row with smaller ones is from the rest that
    retention has left.
    """
    found = {_name(row): row for row in former}
    for row in latest:
        before = found.get(_name(row))
        if before is None or all(row[each] >= before[each] for each in ("expected", "seen")):
            found[_name(row)] = row
    return sorted(found.values(), key=lambda row: [str(row[each] or "") for each in KEY])


def _name(row: Row) -> tuple[object, ...]:
    return tuple(row[each] for each in KEY)


def _add(rows: list[Row], folder: str) -> None:
    path = os.path.join(folder, FILE)
    former = _read(path) if os.path.exists(path) else []
    widths = {row["width"] for row in former} - {row["width"] for row in rows}
    if widths:
        raise LogdError(
            f"{path} has windows of {min(widths) / 1000:g} s, and these are of {rows[0]['width'] / 1000:g} s: give "
            "--window, or another folder"
        )
    everything = joined(former, rows)
    if everything != former:
        os.makedirs(folder, exist_ok=True)
        _write(everything, path)


def _schema() -> Any:
    import pyarrow

    text, number = pyarrow.string(), pyarrow.int64()
    names = {"topic": text, "window": pyarrow.timestamp("ms", "UTC"), "width": number, "cluster": text, "tier": text}
    names |= {"group": text, "source": text}
    names |= dict.fromkeys(_COUNTS, number)
    return pyarrow.schema([*names.items(), ("state", text)])


def _read(path: str) -> list[Row]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path).read().select(_schema().names)
        at = table.schema.get_field_index("window")
        rows: list[Row] = table.set_column(at, "window", table["window"].cast(pyarrow.int64())).to_pylist()
    except (OSError, pyarrow.ArrowException, KeyError) as error:
        raise LogdError(
            f"{path} cannot be read: {error}; move it away, and the next run writes what topic _audit still has"
        ) from error
    return rows


def _write(rows: list[Row], path: str) -> None:
    """Replace a file in one step that survives a loss of power."""
    import pyarrow
    from pyarrow import parquet

    folder, name = os.path.split(path)
    beside = os.path.join(folder, f"_{name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            parquet.write_table(pyarrow.Table.from_pylist(rows, _schema()), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    with open(path, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
