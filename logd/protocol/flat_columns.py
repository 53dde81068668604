"""Columns of messages as flat buffers in Arrow's layout, so that Arrow takes them as they are."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple


class BinaryColumn(NamedTuple):
    """Byte strings, one behind the other; at most 2 GiB of them."""

    data: bytes
    #: The beginning of each in ``data``, and the end of the last one: int32, in the machine's byte order.
    offsets: bytes
    #: A bit for each, lowest first: 0 where there is none; None if none is missing.
    valid: bytes | None

    def items(self) -> list[bytes | None]:
        """Return the byte strings, each as an object."""
        data = self.data
        offsets = memoryview(self.offsets).cast("i").tolist()
        found: list[bytes | None] = [data[begin:end] for begin, end in pairwise(offsets)]
        if self.valid is not None:
            bits = int.from_bytes(self.valid, "little")
            found = [each if bits >> number & 1 else None for number, each in enumerate(found)]
        return found


def binary_column(items: Sequence[bytes | None]) -> BinaryColumn:
    """Return byte strings as a column; None for one that is missing."""
    valid = None
    try:
        data = b"".join(items)  # type: ignore[arg-type]
        sizes = map(len, items)  # type: ignore[arg-type]
    except TypeError:  # an item is None, which is quicker to find so than by a look at each
        bits = "".join(["0" if each is None else "1" for each in reversed(items)])
        valid = int(bits, 2).to_bytes((len(items) + 7) // 8, "little")
        present = [each or b"" for each in items]
        data = b"".join(present)
        sizes = map(len, present)
    return BinaryColumn(data, array("i", accumulate(sizes, initial=0)).tobytes(), valid)


def number_column(numbers: Iterable[int]) -> bytes:
    """Return numbers as int64, in the machine's byte order."""
    return array("q", numbers).tobytes()


def numbers_of(column: bytes) -> list[int]:
    """Return the numbers of a column."""
    return memoryview(column).cast("q").tolist()


def first_number(column: bytes) -> int:
    """Return the first number of a column that has any."""
    return memoryview(column).cast("q")[0]


def last_number(column: bytes) -> int:
    """Return the last number of a column that has any."""
    return memoryview(column).cast("q")[-1]
