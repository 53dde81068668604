"""Entries of a file judged one at a time, wherever they are asked for, in bounded memory and with any checksum.

Recovery has a loop of its own (scan.py) that only goes forward and stops at the first entry that is not sound. This
is for those who have to look around a place that is not: there nothing is taken for true that was not checked.
"""

from __future__ import annotations

from collections import OrderedDict
from struct import Struct

from attrs import define, field

from logd.errors import CorruptMessage
from logd.interfaces import IFile
from logd.protocol.checksums import Checksum, crc32
from logd.protocol.slices import decode_in_slices
from logd.protocol.wrapper import CODEC_MASK

_HEAD = Struct(">iBI")  # N, magic, crc of magics 0, 2 and 7f
_WRAPPER_CRC = Struct(">I")
_KEYED = Struct(">Bqi")

#: The least that an entry takes: N, magic and crc, and nothing behind them.
LEAST = _HEAD.size
#: The least N of each magic.
MINIMUM = {0: 5, 1: 6, 2: 19, 0x7F: 5}
GAP = 0x7F
_NEVER = 1 << 31
_BLOCK = 1 << 18
_BLOCKS = 8


def contents_problem(data: bytes | memoryview, at: int, stop: int) -> str:
    """Return why no consumer can read an entry of magic 1 or 2 whose checksum holds, empty when they can.

    Magic, and the attributes of magic 1, are under no checksum: a magic that was damaged from 0 to 2, or a codec, shows
    here. (Not everything does: from 2 to 0, or from a codec to none, leaves a message that was never sent.) A wrapper
    too large to be opened is not judged: another reader may allow more.
    """
    if data[at + 4] == 1:
        if not data[at + 5] & CODEC_MASK:
            return ""
    else:
        attributes, timestamp, key_length = _KEYED.unpack_from(data, at + LEAST)
        value_at = at + LEAST + _KEYED.size + max(key_length, 0)
        if not (attributes or timestamp < -1 or key_length < -1 or value_at >= stop or data[value_at]):
            return ""
    for decoded in decode_in_slices(bytes(data[at:stop])):
        if isinstance(decoded.error, CorruptMessage):
            return decoded.error.reason
    return ""


@define(eq=False)
class Entries:
    """The entries of ``file`` up to position ``size``. Every method may raise OSError."""

    file: IFile
    size: int
    checksum: Checksum = crc32
    #: A few blocks of the file: those who look around come back to the same places.
    _blocks: OrderedDict[int, bytes] = field(factory=OrderedDict)

    def read(self, position: int, count: int) -> bytes:
        """Return ``count`` bytes, fewer at the end."""
        count = min(count, self.size - position)
        if count <= 0:
            return b""
        number, at = divmod(position, _BLOCK)
        if at + count > _BLOCK:
            return self.file.read_at(position, count)
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = self.file.read_at(number * _BLOCK, _BLOCK)
            if len(self._blocks) > _BLOCKS:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return block[at : at + count]

    def claimed_end(self, position: int) -> int:
        """Return where the entry at ``position`` ends if its length is true; 0 where no entry has such a head.

        Nothing vouches for it; it may lie behind the file's end.
        """
        head = self.read(position, 5)
        if len(head) < 5:
            return 0
        length = int.from_bytes(head[:4], "big", signed=True)
        return position + 4 + length if length >= MINIMUM.get(head[4], _NEVER) else 0

    def problem(self, position: int) -> str:
        """Return why the entry at ``position`` is not sound, empty when it is."""
        problem = self.checksum_problem(position)
        if problem or self.read(position + 4, 1)[0] in (0, GAP):
            return problem
        entry = self.read(position, self.claimed_end(position) - position)
        return contents_problem(entry, 0, len(entry))

    def checksum_problem(self, position: int) -> str:
        """Return why the entry at ``position`` is not all there or its checksum does not hold, empty when it does."""
        head = self.read(position, LEAST)
        if len(head) < LEAST:
            return f"the last entry is cut off after {len(head)} bytes"
        length, magic, crc = _HEAD.unpack(head)
        stop = position + 4 + length
        if length < MINIMUM.get(magic, _NEVER):
            return f"no entry has length {length} and magic {magic}"
        if stop > self.size:
            return f"an entry of {4 + length} bytes has only {self.size - position}"
        if magic == GAP:
            return "" if self.checksum(head[:4]) == crc else "the checksum of a gap does not hold"
        at = position + LEAST
        if magic == 1:
            (crc,) = _WRAPPER_CRC.unpack(self.read(position + 6, 4))
            at += 1
        found = 0
        while at < stop:
            piece = self.read(at, min(_BLOCK - at % _BLOCK, stop - at))
            if not piece:
                return "the file became shorter"
            found = self.checksum(piece, found)
            at += len(piece)
        return "" if found == crc else "the checksum does not hold"

    def is_sound(self, position: int) -> bool:
        """Whether the entry at ``position`` is all there and its checksum holds."""
        return not self.problem(position)
