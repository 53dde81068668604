"""The common part of the programs: the records that they produce, the digest of what they read, and their commands.

::

    produce BOOTSTRAP TOPIC COUNT CODEC,CODEC...   the records 0 to COUNT - 1 to partition 0, in equal shares by codec
    idempotent BOOTSTRAP TOPIC COUNT CODEC         the same by an idempotent producer, which waits for nothing else
    consume BOOTSTRAP TOPIC COUNT                  COUNT records of partition 0 from the beginning on: their digest
    look BOOTSTRAP TOPIC OFFSET TIME               the first offset read from OFFSET on; the offset found for TIME (ms)
    member BOOTSTRAP TOPIC GROUP                   read as a member of a group until killed: a line for each record

The last line of the output is an object of JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

_FILLER = b"x" * 200


def record(number: int) -> tuple[bytes, bytes]:
    """Return the key and the value of a record."""
    return b"k%d" % (number % 1000), b"%d-%s" % (number, _FILLER[: number * 37 % 200])


class Digest:
    """A digest of records in order: offsets, timestamps, keys and values."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = hashlib.sha256()

    def add(self, offset: int, timestamp: int, key: bytes, value: bytes) -> None:
        """Add the next record."""
        self._sum.update(b"%d\t%d\t%s\t%s\n" % (offset, timestamp, key, value))
        self.count += 1

    def result(self) -> dict[str, Any]:
        """Return what a program answers."""
        return {"count": self.count, "sha256": self._sum.hexdigest()}


def shares(count: int, codecs: list[str]) -> list[tuple[str, range]]:
    """Return the records to produce by each codec."""
    ends = [count * place // len(codecs) for place in range(len(codecs) + 1)]
    return [(codec, range(ends[place], ends[place + 1])) for place, codec in enumerate(codecs)]


def run(**commands: Callable[..., Any]) -> None:
    """Run the command of the arguments; numbers are handed over as int."""
    name, *arguments = sys.argv[1:]
    found = commands[name](*[int(each) if each.lstrip("-").isdigit() else each for each in arguments])
    print(json.dumps(found), flush=True)
