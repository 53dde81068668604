"""``logd dump``: shows the entries of one segment, sound or not."""

from __future__ import annotations

import sys
from itertools import islice

import click

from logd.cli.options import json_option
from logd.cli.terminal.exits import exit_on_error
from logd.cli.terminal.tables import show
from logd.log.damage.data_directory import read_contents
from logd.log.damage.records import Record, read_records
from logd.log.disk.local_files import LocalFiles

_COLUMNS = ("id", "next", "magic", "codec", "size", "timestamp", "key", "headers", "crc", "payload")
_EPILOG = """\b
Examples:
  logd dump clicks-0/00000000000000000000.log --max 10
  logd dump clicks-0/00000000001073741824.log --from 1073750000 --json
"""
#: Rows printed at a time: a long table begins at once, and each part of it has widths that fit.
_ROWS = 1000


@click.command(epilog=_EPILOG)
@click.argument("segment", type=click.Path(exists=True, dir_okay=False, resolve_path=True))
@click.option(
    "--from", "start", type=click.IntRange(0), metavar="POSITION", help="Begin at the first entry at or after POSITION."
)
@click.option("--max", "most", type=click.IntRange(0), metavar="N", help="End after N entries.")
@click.option("--expand", is_flag=True, help="Also show the messages inside compressed wrappers and batches.")
@click.option(
    "--payload-bytes",
    "shown",
    type=click.IntRange(0),
    default=60,
    show_default=True,
    metavar="BYTES",
    help="Show at most this much of a payload or key.",
)
@json_option
def dump(segment: str, start: int | None, most: int | None, expand: bool, shown: int, as_json: bool) -> None:
    """Show the entries of SEGMENT, a file named by the position of its first byte: 20 digits and .log.

    Positions are those of the partition's log, like message ids. A damaged entry is shown too, with the problem in
    the column crc; a gap has the magic 127. With --json each line is an object.
    """
    with exit_on_error():
        (place,) = read_contents(LocalFiles(), segment).segments
        records = islice(
            read_records(LocalFiles(), place, start or place.start, expand, shown),
            None if most is None else min(most, sys.maxsize),
        )
        if as_json:
            for record in records:
                click.echo(record.to_json())
            return
        while rows := [_row(record) for record in islice(records, _ROWS)]:
            show(_COLUMNS, rows)
        sys.stdout.flush()


def _row(record: Record) -> tuple[object, ...]:
    return (
        record.id,
        record.next_position,
        record.magic if not record.inside else f"in {record.magic}",
        record.codec,
        record.size,
        None if record.timestamp is None else str(record.timestamp),  # as text: no thousands separators
        _text(record.key, record.key_bytes),
        record.headers or None,
        record.problem or "ok",
        _content(record),
    )


def _content(record: Record) -> str | None:
    if record.mark is not None:
        return f"leader epoch {record.mark.epoch} of broker {record.mark.broker}"
    return record.unopened or _text(record.payload, record.payload_bytes)


def _text(value: bytes | None, whole: int) -> str | None:
    if value is None:
        return None
    text = value.decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown + ("..." if whole > len(value) else "")
