"""Tests of logd.protocol.loops and logd.protocol.batch on batches."""

from __future__ import annotations

from struct import pack, pack_into

from hypothesis import given, settings
from hypothesis import strategies as st

from logd.errors import CorruptMessage, InvalidMessage, MessageTooLarge, WrapperTooLarge
from logd.protocol import loops
from logd.protocol.batch import encode_batch, encode_batches
from logd.protocol.batch_layout import batch_head, with_leader_epoch
from logd.protocol.codecs import BATCH_CODEC_NUMBERS
from logd.protocol.loops.results import Decoded
from logd.protocol.message import Message
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.requests import encode_request
from tests.log.entries import batch, crc32c, gap, plain, record
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation, properties
from tests.protocol.loops.test_damage import changes
from tests.protocol.strategies import message_lists

#: Two messages, "a" and "bb", made by hand.
TWO = batch(record(b"a"), record(b"bb", 1), time=5)
BATCH_CODECS = st.sampled_from(sorted(BATCH_CODEC_NUMBERS))


class BatchTestCase(LoopsTestCase):
    """Decodes sets to their end."""

    def setUp(self) -> None:
        """Let batches be encoded by the loops under test."""
        self.patch(loops, "encode_records", self.loops.encode_records)

    def decode_all(self, data: bytes, position: int = 0, **limits: int) -> tuple[list[Message], Decoded]:
        """Return all messages, and the last result."""
        messages: list[Message] = []
        at, opened = 0, None
        while True:
            decoded = self.loops.decode_set(data, position + at, begin=at, opened=opened, **limits)
            messages += decoded.messages
            stuck = decoded.consumed == at and decoded.opened is None
            at, opened = decoded.consumed, decoded.opened
            if decoded.error is not None or at >= len(data) or stuck:
                return messages, decoded


@on_each_implementation
class RoundTripTests(BatchTestCase):
    """Messages that go through a batch."""

    def test_one_payload_is_encoded_as_its_message(self) -> None:
        """An example of the property below."""
        self.assertEqual(self.loops.encode_payload_records([b"a"]), self.loops.encode_records([Message(b"a")]))
        self.assertEqual(self.loops.encode_payloads([b"a"]), self.loops.encode_set([Message(b"a")]))
        frame = encode_request(Produce("t", 5, self.loops.encode_set([Message(b"a")])))
        self.assertEqual(self.loops.encode_payload_frames(frame[0][4:-4], [b"a", b"a"]), b"".join(frame) * 2)

    @settings(properties, max_examples=100)
    @given(st.lists(st.binary(max_size=200) | st.sampled_from([b"", bytes(63), bytes(64), bytes(9000)]), min_size=1))
    def test_payloads_alone_are_encoded_as_messages_of_them(self, payloads: list[bytes]) -> None:
        """Producers keep no message object for those; the bytes are the same, in a batch and as entries."""
        many = payloads * (1 + 9000 // len(payloads) if len(payloads[0]) < 2 else 1)
        messages = [Message(payload) for payload in many]
        self.assertEqual(self.loops.encode_payload_records(many), self.loops.encode_records(messages))
        self.assertEqual(self.loops.encode_payloads(many), self.loops.encode_set(messages))
        head = encode_request(Produce("topic", 1, b""))[0][4:-4]
        few = 200  # the request of each is made in Python
        frames = [encode_request(Produce("topic", 1, self.loops.encode_set([each]))) for each in messages[:few]]
        self.assertEqual(
            self.loops.encode_payload_frames(head, many[:few]), b"".join(piece for each in frames for piece in each)
        )

    @settings(properties, max_examples=200)
    @given(message_lists.filter(bool), BATCH_CODECS)
    def test_messages_come_back_as_they_were(self, messages: list[Message], codec: str) -> None:
        """Payload, key, time and headers survive every codec; positions end at the batch's end, one apart."""
        data = encode_batch(messages, codec)
        found, decoded = self.decode_all(data, 1000)
        self.assertEqual(found, messages)
        self.assertIsNone(decoded.error)
        end = 1000 + len(data)
        self.assertEqual(decoded.position, end)
        behind = [end - len(messages) + number + 1 for number in range(len(messages))]
        self.assertEqual([message.next_position for message in found], behind)
        self.assertEqual([message.id for message in found], [1000, *behind[:-1]])

    @settings(properties, max_examples=100)
    @given(message_lists.filter(bool), st.integers(1, 3), st.integers(1, 60))
    def test_slices_hold_what_the_whole_holds(self, messages: list[Message], limit: int, limit_bytes: int) -> None:
        """However few messages or bytes are decoded at a time, all of them come, in order."""
        data = encode_batch(messages, "zstd") + plain(b"behind")
        found, decoded = self.decode_all(data, 0, limit=limit, limit_bytes=limit_bytes)
        self.assertEqual((found, decoded.error), ([*messages, Message(b"behind")], None))

    @settings(properties, max_examples=100)
    @given(message_lists.filter(bool), st.data())
    def test_a_reader_begins_inside(self, messages: list[Message], data: st.DataObject) -> None:
        """From any position in a batch, the messages whose positions lie at or behind it are delivered."""
        encoded = encode_batch(messages)
        start = data.draw(st.integers(0, len(encoded)))
        found, _ = self.decode_all(encoded, start_at=start)
        self.assertEqual(len(found), sum(each.next_position > start for each in self.decode_all(encoded)[0]))

    def test_numbers_of_several_bytes_are_read(self) -> None:
        """A batch of more messages than one or two bytes can number is decoded in order."""
        messages = [Message(b"%d" % number, timestamp=number) for number in range(9000)]
        self.assertEqual(self.decode_all(encode_batch(messages))[0], messages)

    def test_an_empty_message_takes_a_byte(self) -> None:
        """A batch that compresses to fewer bytes than messages is padded with zeros."""
        data = encode_batch([Message(b"")] * 5000, "zstd")
        self.assertEqual(len(data), 5000)
        self.assertEqual(self.loops.check_set(data, 1000), (5000, -1, True, False))
        found, _ = self.decode_all(data)
        self.assertEqual([message.next_position for message in found], [*range(1, 5001)])

    def test_the_time_of_appending_is_that_of_each_message(self) -> None:
        """Bit 3 of the attributes gives all messages the newest time, whatever their own times are."""
        data = batch(record(b"a", 0, 3), record(b"b", 1, 9), time=50, codec=8)
        self.assertEqual([message.timestamp for message in self.decode_all(data)[0]], [50, 50])

    def test_removed_messages_leave_their_positions(self) -> None:
        """Messages left by a compaction keep their positions, and the batch its end."""
        data = bytearray(batch(record(b"a", 1), record(b"b", 3), time=5))
        pack_into(">i", data, 23, 4)  # five messages were produced
        data[17:21] = batch(record(b"a", 1), record(b"b", 3), time=5)[17:21]
        whole = bytes(data)
        data[17:21] = pack(">I", crc32c(whole[21:]))
        found, decoded = self.decode_all(bytes(data), 100)
        end = 100 + len(data)
        self.assertEqual([(m.payload, m.id, m.next_position) for m in found], [
            (b"a", end - 4, end - 3), (b"b", end - 2, end - 1),
        ])  # fmt: skip
        self.assertEqual((decoded.position, decoded.error), (end, None))

    def test_large_sets_are_split(self) -> None:
        """No batch is larger than allowed unless one message alone is."""
        messages = [Message(bytes(100))] * 50 + [Message(bytes(3000))]
        data = encode_batches(messages, max_bytes=1000)
        heads = self.loops.heads_of_set(data)
        self.assertTrue(all(size <= 1000 for _, size, _ in heads[:-1]))
        self.assertGreater(heads[-1][1], 3000)
        self.assertEqual(self.decode_all(data)[0], messages)
        self.assertEqual(encode_batches([]), b"")


@on_each_implementation
class CheckTests(BatchTestCase):
    """The broker's check."""

    def test_a_batch_counts_its_messages(self) -> None:
        """The check finds the number of messages, the newest time, and that there are batches."""
        self.assertEqual(self.loops.check_set(TWO, 1), (2, 5, True, False))
        self.assertEqual(self.loops.check_set(plain(b"x") + TWO, 1), (3, 5, True, False))
        self.assertEqual(self.loops.check_set(with_leader_epoch(TWO, 7) + TWO, 1), (4, 5, True, True))

    def test_every_changed_byte_is_noticed(self) -> None:
        """The broker refuses, and a reader reports, a batch of which any byte is another."""
        for at in range(len(TWO)):
            for changed in changes(TWO, at):
                self.assertRaises((InvalidMessage, MessageTooLarge), self.loops.check_set, changed, 1000, 1000)
                found, decoded = self.decode_all(changed)
                self.assertFalse(found)
                self.assertTrue(decoded.error or decoded.needed or at < 4, (at, changed.hex()))

    def test_every_prefix_is_refused(self) -> None:
        """A batch that is cut is refused by the broker, and is an incomplete entry to a reader."""
        for stop in range(1, len(TWO)):
            self.assertRaises(InvalidMessage, self.loops.check_set, TWO[:stop], 1000)
            self.assertEqual(self.loops.decode_set(TWO[:stop]).messages, [])
            self.assertIsNone(self.loops.decode_set(TWO[:stop]).error)

    def test_a_large_batch_is_refused(self) -> None:
        """batch.bytes counts the whole entry, and message.bytes does not count for batches."""
        self.loops.check_set(TWO, 1, len(TWO))
        error = self.assertRaises(MessageTooLarge, self.loops.check_set, TWO, 1, len(TWO) - 1)
        self.assertIn("batch.bytes", str(error))

    def test_heads_that_brokers_do_not_take_are_refused(self) -> None:
        """The refusal says why."""
        cases = {
            "0 messages": batch(messages=0),
            "-1 messages": batch(messages=-1),
            "neither its records nor one byte": batch(record(b"a"), pad=1),
            "attributes 0x0010": batch(record(b"a"), codec=0x10),
            "attributes 0x0020": batch(record(b"a"), codec=0x20),
            "attributes 0x0005": batch(record(b"a"), codec=5),
            "attributes 0x0040": batch(record(b"a"), codec=0x40),
        }
        for words, data in cases.items():
            error = self.assertRaises(InvalidMessage, self.loops.check_set, data, 1000)
            self.assertIn(words, str(error))

    def test_a_pad_is_zeros(self) -> None:
        """A pad that holds anything is refused, since no checksum covers it."""
        padded = encode_batch([Message(b"")] * 5000, "zstd")
        self.loops.check_set(padded, 1000)
        error = self.assertRaises(InvalidMessage, self.loops.check_set, padded[:-1] + b"x", 1000)
        self.assertIn("pad", str(error))

    def test_batches_of_idempotent_producers_are_refused(self) -> None:
        """A producer id, epoch or sequence would never be checked here, so a producer must not rely on it."""
        for form, at in ((">q", 43), (">h", 51), (">i", 53)):
            data = bytearray(TWO)
            pack_into(form, data, at, 1)
            pack_into(">I", data, 17, crc32c(bytes(data[21:])))
            error = self.assertRaises(InvalidMessage, self.loops.check_set, bytes(data), 1000)
            self.assertIn("producer", str(error))


@on_each_implementation
class RecordTests(BatchTestCase):
    """Records that their producer has made wrong, under checksums that match."""

    def refused(self, *records: bytes, messages: int | None = None, before: int = 0) -> str:
        """Check that a reader gets the ``before`` first messages and an error; return its text."""
        data = batch(*records, messages=messages)
        found, decoded = self.decode_all(data)
        self.assertEqual(len(found), before)
        assert isinstance(decoded.error, CorruptMessage), decoded
        self.assertEqual(decoded.error_end, len(data))
        return decoded.error.reason

    def test_wrong_records_are_refused(self) -> None:
        """Each has a reason, and the messages before it are delivered."""
        sound = record(b"a")
        self.assertIn("add up", self.refused(bytes((sound[0] + 2,)) + sound[1:] + b"\0"))
        self.assertIn("cut short", self.refused(sound, b"\x0c\0\0\x02\x01\x64", before=1))
        self.assertIn("number 0 behind 0", self.refused(sound, sound, before=1))
        self.assertIn("number 5", self.refused(record(b"a", 5)))
        self.assertIn("behind its last record", self.refused(sound, sound, messages=1))
        self.assertIn("cut short", self.refused(sound, messages=2, before=1))
        self.assertIn("a key of -2", self.refused(b"\x0e\0\0\0\x03\x02a\0"))
        self.assertIn("a value of -2", self.refused(b"\x0e\0\0\0\x01\x03a\0"))
        self.assertIn("headers", self.refused(b"\x0e\0\0\0\x01\x02a\x10"))
        self.assertIn("64 bits", self.refused(b"\xff" * 11))

    @settings(properties, max_examples=300)
    @given(st.binary(max_size=60), st.integers(1, 40), st.sampled_from([0, 1, 2, 3, 4, 7]))
    def test_any_bytes_end_in_an_error_or_messages(self, records: bytes, messages: int, codec: int) -> None:
        """Whatever stands in a batch whose checksums match, decoding ends and makes no more than was announced."""
        data = batch(records, messages=messages, codec=codec, pad=max(0, messages - 61 - len(records)))
        found, decoded = self.decode_all(data)
        self.assertLessEqual(len(found), messages)
        self.assertTrue(decoded.error is not None or len(found) == messages)

    def test_bounds_hold_for_batches(self) -> None:
        """A batch above a bound is not damaged: the error names the setting, and where to go on."""
        many = encode_batch([Message(b"")] * 2000, "zstd")
        large = encode_batch([Message(bytes(100_000))], "gzip")
        for data, limits, setting in (
            (many, {"max_decompressed_messages": 1999}, "max_decompressed_messages"),
            (large, {"max_decompressed": 99_000}, "max_decompressed"),
        ):
            found, decoded = self.decode_all(data, 10, **limits)
            self.assertEqual(found, [])
            assert isinstance(decoded.error, WrapperTooLarge)
            self.assertEqual((decoded.error.setting, decoded.error.end), (setting, 10 + len(data)))


@on_each_implementation
class OtherLoopTests(BatchTestCase):
    """The loops that make no messages."""

    def test_scans_pass_batches(self) -> None:
        """A scan counts a batch as one entry with the newest of its times, and stops at a damaged one."""
        data = plain(b"x") + TWO + gap(20)
        found = self.loops.scan_set(data)
        self.assertEqual((found.consumed, found.entries, found.newest, found.problem), (len(data), 3, 5, ""))
        for at in (30, len(TWO) - 1):
            damaged = TWO[:at] + bytes((TWO[at] ^ 1,)) + TWO[at + 1 :]
            found = self.loops.scan_set(plain(b"x") + damaged)
            self.assertEqual((found.consumed, found.problem), (10, "checksum mismatch"))

    def test_heads_have_the_newest_time(self) -> None:
        """The time of a batch is that of its newest message."""
        data = encode_batch([Message(b"a", timestamp=9), Message(b"b", timestamp=3)])
        self.assertEqual(self.loops.heads_of_set(data), [(0, len(data), 9)])
        self.assertEqual((batch_head(data).base_time, batch_head(data).max_time), (9, 9))
