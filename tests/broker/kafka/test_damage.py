"""Tests of damage that clients of today's Kafka meet: it is looked at, and nothing is left out that may be healed."""

from __future__ import annotations

from logd.log.disk.names import segment_name
from logd.protocol.batch import encode_batch
from logd.protocol.message import Message
from tests.broker.kafka.fetches import FetchTestCase, values, values_in


def batch(payload: bytes) -> bytes:
    """Return a batch of one message."""
    return encode_batch([Message(payload)])


class DamageTests(FetchTestCase):
    """Damaged batches on a disk."""

    def file(self) -> bytearray:
        """Return the bytes of the log's one segment."""
        return self.files._inode(f"{self.log_of(self.topic).folder}/{segment_name(0)}").data

    def test_what_is_left_out_is_verified(self) -> None:
        """The broker learns of the damage from the first client that reads it, and tells its operators."""
        _, at, behind_it, _ = self.put(batch(b"a"), batch(b"bad" * 20), batch(b"b"))
        self.file()[behind_it - 5] ^= 1
        self.files.cold = lambda: True
        self.assertNotIn("damaged", self.broker.health())
        self.assertEqual(values(self.read_all(at)), [b"b"])
        self.settle()
        self.assertIn(f"at position {at}: checksum mismatch", self.broker.health()["damaged"]["t-0"])

    def test_nothing_is_left_out_while_it_may_be_healed(self) -> None:
        """Clients retry after the error, and what is before the damage is sent."""
        before, at, behind_it, _ = self.put(batch(b"a"), batch(b"bad" * 20), batch(b"b"))
        for place in (behind_it - 5, at):  # a payload, and a length
            self.file()[place] ^= 1
            for cold in (True, False):
                self.files.cold = lambda cold=cold: cold  # type: ignore[misc]
                if place == behind_it - 5 and not cold:
                    continue  # what is in the cache is not verified
                self.is_healing = True
                self.assertEqual(values(values_in(self.part(before))), [b"a"])
                for offset in (at, at + 1):
                    part = self.part(offset)
                    self.assertEqual((part.error_code, bytes(part.records or b"")), (56, b""), (place, cold, offset))
                self.is_healing = False
                self.assertEqual(self.part(at).error_code, 0)
            self.file()[place] ^= 1
            self.files.cold = lambda: False
            self.assertEqual(values(values_in(self.part(at))), [b"bad" * 20, b"b"])
