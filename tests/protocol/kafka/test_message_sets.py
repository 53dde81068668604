"""Tests of logd.protocol.kafka.message_sets and legacy_entries; the sets are those of kafka-python."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from struct import pack
from zlib import crc32

from kafka.record.legacy_records import LegacyRecordBatchBuilder
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.codecs import compress
from logd.protocol.kafka.legacy_entries import NoLegacyForm, legacy_entries
from logd.protocol.kafka.message_sets import MESSAGE_SET_ERRORS, MOST_BYTES, MOST_MESSAGES, batch_of_message_set
from logd.protocol.message import Message

MESSAGES = [Message(b"value %d" % number, key=b"k" if number % 2 else None) for number in range(50)]


def message_set(magic: int, messages: Sequence[Message], times: Sequence[int | None] = ()) -> bytes:
    """Return a set without compression, by kafka-python."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 20)
    for number, each in enumerate(messages):
        builder.append(number, times[number] if times else None, each.key, each.payload)
    return bytes(builder.build())


def wrapped(magic: int, codec: int, value: bytes) -> bytes:
    """Return a wrapper of a compressed set."""
    body = pack(">Bb", magic, codec) + (pack(">q", 5) if magic else b"") + pack(">ii", -1, len(value)) + value
    return pack(">qiI", 0, len(body) + 4, crc32(body)) + body


def messages_of(batch: bytes) -> list[Message]:
    """Return the messages of a batch, which is checked as a producer's."""
    loops.check_set(batch, 1 << 20, 1 << 20)
    return list(loops.decode_set(batch).messages)


class MessageSetTests(SynchronousTestCase):
    """``batch_of_message_set``."""

    def test_sets_of_both_magics(self) -> None:
        """Magic 1 has times."""
        self.assertEqual(messages_of(batch_of_message_set(message_set(0, MESSAGES))), MESSAGES)
        times = [1000 + number for number in range(50)]
        found = messages_of(batch_of_message_set(message_set(1, MESSAGES, times)))
        self.assertEqual([(each.payload, each.key, each.timestamp) for each in found[:2]],
                         [(b"value 0", None, 1000), (b"value 1", b"k", 1001)])  # fmt: skip
        self.assertEqual(len(found), 50)

    def test_compressed_sets_stay_compressed(self) -> None:
        """By each codec that old clients have; the lz4 frames of magic 0 have a wrong checksum in their header."""
        for magic in (0, 1):
            inner = message_set(magic, MESSAGES, [5] * 50 if magic else ())
            for number, name in ((1, "gzip"), (2, "snappy"), (3, "lz4")):
                value = compress(name, inner)
                if name == "lz4" and magic == 0:
                    value = value[:6] + bytes((value[6] ^ 0x55,)) + value[7:]
                batch = batch_of_message_set(wrapped(magic, number, value))
                self.assertEqual([each.payload for each in messages_of(batch)], [each.payload for each in MESSAGES])
                self.assertEqual(batch[22], number)

    def test_the_lz4_checksum_is_made_anew_for_every_form_of_header(self) -> None:
        """The first client that was tried writes the content's size, the second does not."""
        plain = message_set(0, MESSAGES)
        sized = compress("lz4", plain)
        self.assertEqual(len(messages_of(batch_of_message_set(wrapped(0, 3, sized)))), 50)

    def test_bad_sets_are_refused(self) -> None:
        """Damage anywhere, cut off, empty, compressed twice, a codec that there was not, more than is decompressed."""
        good = message_set(1, MESSAGES[:2], [1, 2])
        bad = [b"", good[:-1], good[:20], wrapped(1, 5, good), wrapped(1, 4, good), wrapped(1, 1, b"no gzip")]
        bad += [wrapped(1, 1, gzip.compress(wrapped(1, 1, gzip.compress(good)))), wrapped(1, 1, gzip.compress(b""))]
        bad += [wrapped(1, 1, gzip.compress(bytes(MOST_BYTES + 1)))]
        bad += [wrapped(1, 1, gzip.compress(message_set(1, [Message(b"x")] * (MOST_MESSAGES + 1), [1] * 20_001)))]
        bad += [good[:at] + bytes((good[at] ^ 0x40,)) + good[at + 1 :] for at in range(8, len(good) // 2)]
        for each in bad:
            with self.assertRaises(MESSAGE_SET_ERRORS):
                batch_of_message_set(each)


class LegacyEntryTests(SynchronousTestCase):
    """``legacy_entries``."""

    def test_records_become_plain_messages(self) -> None:
        """Without their times; clients of 0.7 read them."""
        for codec in ("none", "lz4", "zstd"):
            batch = encode_batch([Message(b"a", timestamp=5), Message(b"bc")], codec)
            found, first = legacy_entries(batch)
            self.assertEqual((found[4:5], first), (b"\0", 10))
            self.assertEqual([each.payload for each in loops.decode_set(found).messages], [b"a", b"bc"])
            loops.check_set(found, 1 << 20, 1 << 20, True)

    def test_what_they_cannot_hold_is_refused(self) -> None:
        """Keys, headers, no value."""
        for each in (Message(b"a", key=b"k"), Message(b"a", headers=[("h", b"x")]), Message(None, key=b"k")):
            with self.assertRaises(NoLegacyForm):
                legacy_entries(encode_batch([Message(b"first"), each]))
