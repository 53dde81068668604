"""Packs logd for executors that do not have it: one zip for ``--py-files``, with attrs, which logd always needs.

    python -m logd.spark.shipping logd.zip
    spark-submit --py-files logd.zip ...

The zip contains no compiled code, so it fits every machine. Compiled packages have to be installed on the executors:
pyarrow; cramjam for compressed messages; google-crc32c for batches; fastavro for the options avroSchema and registry.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import attrs

import logd.errors

#: Parts of logd that executors do not need.
_LEFT_OUT = ("bench", "cli", "collect", "testing", "web")


def pack(path: str) -> None:
    """Write the zip to ``path``. Raises OSError."""
    with ZipFile(path, "w", ZIP_DEFLATED) as made:
        for name, file in _files():
            made.write(file, name)


def _files() -> Iterator[tuple[str, Path]]:
    """Yield each name in the zip, and its file."""
    beside = Path(attrs.__file__).parent
    for folder in (Path(logd.errors.__file__).parent, beside, beside.with_name("attr")):  # attrs has two packages
        for place, folders, names in os.walk(folder, followlinks=True):  # logd/spark is a link in a checkout
            if Path(place) == folder and folder.name == "logd":
                folders[:] = [each for each in folders if each not in _LEFT_OUT]
            for name in sorted(names):
                if name.endswith(".py"):
                    file = Path(place, name)
                    yield f"{folder.name}/{file.relative_to(folder).as_posix()}", file


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m logd.spark.shipping FILE.zip")
    pack(sys.argv[1])
