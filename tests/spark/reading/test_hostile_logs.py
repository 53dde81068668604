"""Tests of logd.spark.blocking.reading over logs with hostile bytes: LOGD_FUZZ_EXAMPLES of them, 300 by default."""

from __future__ import annotations

import os
from bisect import bisect_right
from itertools import accumulate

from attrs import define, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import CorruptMessage
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import RangeReader, ReadSettings
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

EXAMPLES = int(os.environ.get("LOGD_FUZZ_EXAMPLES", "300"))

VALUES = [b"%05d" % number * (number % 9) for number in range(60)]
#: Entries of every kind: without and with a time, a key and headers, and wrappers of several codecs.
ENTRIES = [
    *(encode_set([Message(value)]) for value in VALUES[:20]),
    *(encode_set([Message(value, timestamp=7, key=b"k", headers=(("h", b"v"),))]) for value in VALUES[20:40]),
    wrap([Message(value) for value in VALUES[40:45]], "gzip"),
    wrap([Message(value) for value in VALUES[45:50]], "zstd"),
    *(encode_set([Message(value)]) for value in VALUES[50:]),
]
SOUND = b"".join(ENTRIES)
STARTS = [0, *accumulate(map(len, ENTRIES))]
#: Lengths that lead nowhere, far beyond the log, or just beyond an entry.
LENGTHS = (0, 1, 5, 100, 10_000, 1 << 20, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)


@define
class HostileLog(FakeLog):
    """A log whose broker knows by its index where entries begin, whatever the bytes say now."""

    starts: list[int] = field(factory=lambda: STARTS)

    def boundary(self, position: int) -> int:
        """Return the start of the entry that contains a position, or the end for the end."""
        return self.starts[bisect_right(self.starts, position) - 1]


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """Draw the sound log with some bytes changed, or other lengths at entries; it stays as long as it was."""
    data = bytearray(SOUND)
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            at = draw(st.sampled_from(STARTS[:-1]))
            data[at : at + 4] = draw(st.sampled_from(LENGTHS)).to_bytes(4, "big")
        else:
            piece = draw(st.binary(min_size=1, max_size=8))
            at = draw(st.integers(0, len(data) - len(piece)))
            data[at : at + len(piece)] = piece
    return bytes(data)


class HostileLogTests(SynchronousTestCase):
    """Every read ends, with the rows that were published or an error that names the place."""

    @given(spoiled(), st.integers(80, 3000), st.integers(1, 50))
    @settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    def test_damage_is_named_and_gives_no_wrong_rows(self, data: bytes, fetch_bytes: int, rows: int) -> None:
        """The rows before it are those that were published, in order, however the fetches cut the log."""
        broker = FakeBroker({"t": FakeTopic("u", [FakeLog(), HostileLog(data)])})
        reader = RangeReader(
            broker.cluster(),
            IdRange("t", "u", 1, 0, len(data)),
            ReadSettings(fetch_bytes=fetch_bytes, rows=rows, message_bytes=1 << 20),
        )
        found: list[bytes | None] = []
        try:
            for each in reader.rows():
                found += each.values
        except CorruptMessage as error:
            self.assertIn("topic 't', partition 1", str(error))
            self.assertIn(str(error.position), str(error))
            self.assertIn(error.position, STARTS)
            self.assertLess(sum(broker.slept), 60.0)
        else:
            self.assertEqual(len(found), len(VALUES))
        self.assertEqual(found, VALUES[: len(found)])
