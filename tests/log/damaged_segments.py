"""Make segments of random entries, with payloads that look like entries, and damage them."""

from __future__ import annotations

from random import Random

from attrs import define, field

from logd.interfaces import IFile
from logd.log.damage.inspection import SegmentInspection, SegmentPlace
from logd.log.damage.kinds import Damage
from logd.log.damage.repair import Mended, mend
from logd.log.disk.names import index_name, join, segment_name
from logd.log.index.index_file import Boundary, encode_chunk, encode_header
from logd.protocol.checksums import CHECKSUMS
from logd.testing.memory.files import MemoryFiles
from tests.log.entries import batch, gap, plain, record, timed, wrapped

FOLDER = "/t-0"


def payload(random: Random) -> bytes:
    """Return any payload that a producer may send: text, bytes, zeros, whole message sets."""
    choices = [
        b"".join(plain(b"planted %d" % number) for number in range(random.randint(1, 5))),
        plain(b"") * random.randint(1, 10),
        b"junk" + timed(b"planted", 5) + wrapped(b"planted"),
        bytes(random.randint(0, 60)),
        random.randbytes(random.randint(0, 60)),
        b"a message in words " * random.randint(0, 5),
    ]
    return random.choice(choices)


def entry(random: Random, batches: bool = True) -> bytes:
    """Return an entry of any kind, perhaps a batch; a gap has removed messages inside."""
    kind = random.randrange(9 if batches else 8)
    if kind == 8:
        payloads = random.choices([b"", plain(b"planted"), random.randbytes(20)], k=random.randint(1, 5))
        records = [record(each, number) for number, each in enumerate(payloads)]
        return batch(*records, time=random.choice([-1, random.randrange(1 << 40)]))
    if kind == 0:
        return wrapped(payload(random))
    if kind == 1:
        return timed(payload(random), random.randrange(1 << 40))
    if kind == 2:
        removed = plain(b"removed") * random.randint(1, 4)
        return gap(9 + len(removed))[:9] + removed
    return plain(payload(random))


def is_gap(entry: bytes) -> bool:
    """Return True for a gap, which consumers skip."""
    return entry[4] == 0x7F


@define(eq=False)
class DamagedSegment:
    """One segment of a closed partition on a disk in memory, sound at first."""

    entries: list[bytes]
    files: MemoryFiles = field(factory=MemoryFiles)
    #: The beginning of each entry, and the end.
    ends: list[int] = field(init=False)
    place: SegmentPlace = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.ends = [0]
        for each in self.entries:
            self.ends.append(self.ends[-1] + len(each))
        if not self.files.exists(FOLDER):
            self.files.make_directory(FOLDER)
        file = self._create(segment_name(0))
        file.append(self.entries)
        file.sync_data()
        file.close()
        self.files.sync_directory(FOLDER)
        self.files.sync_directory("/")
        self.place = SegmentPlace(FOLDER, 0, self.ends[-1], True)

    @classmethod
    def random(cls, random: Random, most: int = 60, batches: bool = True) -> DamagedSegment:
        """Return a segment of 2 to ``most`` entries, with or without an index."""
        segment = cls([entry(random, batches) for _ in range(random.randint(2, most))], MemoryFiles(random))
        if random.random() < 0.5:
            segment.write_index(random.choice([1, 100, 400]))
        return segment

    def _create(self, name: str) -> IFile:
        return self.files.open(join(FOLDER, name), create=True)

    def write_index(self, every: int, shift: int = 0, shift_from: int = 1) -> None:
        """Write an index with a boundary each ``every`` bytes; from entry ``shift_from`` on, ``shift`` too far."""
        boundaries: list[Boundary] = []
        for number, position in enumerate(self.ends[:-1]):
            if not boundaries or position >= boundaries[-1].position + every:
                boundaries.append(Boundary(position + shift * (number >= shift_from), 1, -1))
        boundaries.append(Boundary(self.ends[-1], 1, -1))
        file = self._create(index_name(0))
        chunks = [encode_chunk(boundaries[at : at + 512]) for at in range(0, len(boundaries), 512)]
        file.append([encode_header(0), *chunks])
        file.sync_data()
        file.close()
        self.files.sync_directory(FOLDER)

    @property
    def data(self) -> bytearray:
        """The file's bytes, to be looked at and damaged; the disk gets what ``settle`` finds."""
        return self.files._inode(self.place.path).data

    def settle(self) -> None:
        """Put the damage on the disk, as if it had been written there."""
        self.files._inode(self.place.path).disk = bytes(self.data)

    def damage_length(self, number: int, random: Random) -> None:
        """Change the length of an entry, and nothing else."""
        at = self.ends[number]
        old = bytes(self.data[at : at + 4])
        while self.data[at : at + 4] == old:
            new = random.choice(
                [
                    random.getrandbits(32),
                    random.randint(0, 2 * self.ends[-1]),
                    int.from_bytes(old, "big") ^ (1 << random.randrange(31)),
                ]
            )
            self.data[at : at + 4] = new.to_bytes(4, "big")
        self.settle()

    def flip(self, number: int, random: Random) -> None:
        """Flip one bit anywhere in an entry."""
        self.data[random.randrange(self.ends[number], self.ends[number + 1])] ^= 1 << random.randrange(8)
        self.settle()

    def look(self) -> list[Damage]:
        """Return the damages that an inspection finds."""
        with SegmentInspection.open(self.files, self.place, CHECKSUMS) as inspection:
            for _ in inspection.run():
                pass
            return inspection.damages

    def repair(self, cut: bool = False) -> Mended:
        """Inspect the segment, and mend it."""
        with SegmentInspection.open(self.files, self.place, CHECKSUMS, writable=True) as inspection:
            for _ in inspection.run():
                pass
            return mend(self.files, inspection.file, inspection.damages, cut)

    def found(self) -> dict[int, bytes]:
        """Return the entries by position, as a reader finds them now."""
        found = {}
        at = 0
        while at < len(self.data):
            end = at + 4 + int.from_bytes(self.data[at : at + 4], "big")
            found[at] = bytes(self.data[at:end])
            at = end
        return found

    def harm(self, damaged: set[int]) -> str:
        """Return a sentence about a sound entry that is lost, or one that was made up; "" if there is none."""
        found = self.found()
        for number, expected in enumerate(self.entries):
            if number not in damaged and found.get(self.ends[number]) != expected:
                return f"entry {number} at {self.ends[number]} is lost"
        for position, each in found.items():
            if position not in self.ends and not is_gap(each):
                return f"there never was an entry at {position}"
        return ""
