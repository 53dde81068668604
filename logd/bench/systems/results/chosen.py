"""The figures of a result that a drawing shows: which rows, by what name, with what spread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

#: One row of a result: a client's figures for one load.
Row = Mapping[str, Any]
#: The batches of the paper's Figure 4, and 0, the client's own.
BATCHES = {1: "one message to a request", 50: "50 messages to a request", 0: "one message a call, own batches"}


@frozen
class Bar:
    """A median, with the least and greatest value of the rounds."""

    value: float
    low: float
    high: float


def label(row: Row) -> str:
    """Return the name of a row's system and client."""
    system, client = str(row["system"]), str(row["client"])
    return client if client.startswith(system) else f"{system}, {client}"


def is_logd(name: str) -> bool:
    """Return whether a label is logd's own."""
    return name.startswith("logd")


def rows_of(result: Mapping[str, Any], part: str) -> list[Row]:
    """Return the rows of ``produce``, ``consume`` or ``latency``, in the order of the systems."""
    order = [each["system"] for each in result["systems"]]
    return sorted(
        (each for each in result["figures"] if each["part"] == part), key=lambda row: order.index(row["system"])
    )


def names_of(result: Mapping[str, Any]) -> list[str]:
    """Return every label, in the order of the systems and of their clients."""
    order = [each["system"] for each in result["systems"]]
    rows = sorted(result["figures"], key=lambda row: order.index(row["system"]))
    return list(dict.fromkeys(label(each) for each in rows))


def at_batch(rows: Iterable[Row], batch: int) -> dict[str, Row]:
    """Return the rows of one batch by their labels: with acks 1, where a client was measured with several."""
    found: dict[str, Row] = {}
    for each in sorted(rows, key=lambda row: row.get("acks", 1) != 1):
        if each["batch"] == batch:
            found.setdefault(label(each), each)
    return found


def at_best_batch(rows: Sequence[Row]) -> dict[str, Row]:
    """Return one row for each label: of the client's own batches, of 50 where it has none."""
    return at_batch(rows, 50) | at_batch(rows, 0)


def at_most_messages(rows: Sequence[Row]) -> dict[str, Row]:
    """Return one row for each label: like ``at_best_batch``, but the other batch if it has more messages.

    For consumers: they read the same whatever the batch was, and the few messages of a slow producer in no time.
    """
    own = at_best_batch(rows)
    most = {name: row for name, row in at_batch(rows, 50).items() if row["messages"] > own[name]["messages"]}
    return own | most


def seconds_of(row: Row) -> float:
    """Return how long the measurement of a row took; results of earlier versions do not say it."""
    return float(row["seconds"] if "seconds" in row else row["messages"] / row["messages_per_second"])


def has_disk(row: Row, size: int) -> bool:
    """Return whether the growth of the files tells the bytes for each message, whose payload has ``size`` bytes.

    It does not where a system rewrote its files meanwhile, or has the messages in memory only.
    """
    stored = row.get("disk_bytes_per_message")
    return stored is not None and min([stored, *row["spread"].get("disk_bytes_per_message", ())]) >= size


def figure(name: str) -> Callable[[Row], Bar]:
    """Return what takes a figure from a row."""
    return lambda row: _scaled(row, name, 1.0)


def for_each_message(name: str) -> Callable[[Row], Bar]:
    """Return what takes a figure in seconds from a row as microseconds for each message."""
    return lambda row: _scaled(row, name, 1e6 / row["messages"])


def number(value: float) -> str:
    """Return a figure with the three digits that count, such as 481,000 or 0.72."""
    if not value:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def _scaled(row: Row, name: str, factor: float) -> Bar:
    low, high = row["spread"].get(name, (row[name],) * 2)
    return Bar(row[name] * factor, low * factor, high * factor)
