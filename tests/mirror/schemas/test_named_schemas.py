"""Tests of logd.mirror.schemas.named_schemas."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.avro.framing import head
from logd.errors import WrapperTooLarge
from logd.mirror.schemas.named_schemas import named_schemas
from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.protocol.slices import result_of


class NamedSchemasTests(SynchronousTestCase):
    """``named_schemas``."""

    def test_payloads_and_keys_of_all_kinds_of_entries_are_looked_at(self) -> None:
        """Plain entries, wrappers and batches; several rounds."""
        data = b"".join(
            [
                loops.encode_set([Message(head(1) + b"x" * 3000)] * 500),
                wrap([Message(head(2)), Message(head(1))], "gzip"),
                encode_batch([Message(head(3) + b"y", key=head(4))], "zstd"),
                loops.encode_set([Message(None, key=head(5))]),
            ]
        )
        self.assertEqual(result_of(named_schemas(data, 7000)), {1, 2, 3, 4, 5})

    def test_what_is_no_framing_names_nothing(self) -> None:
        """Text, payloads that are too short, and ids that no registry gives."""
        payloads = [b"text", b"", b"\0\0\0\1", head(0), head(1 << 31), b"\1\0\0\0\1"]
        self.assertEqual(result_of(named_schemas(loops.encode_set([Message(each) for each in payloads]), 0)), set())

    def test_a_batch_that_cannot_be_opened_does_not_hide_the_next(self) -> None:
        """The broker looks at nothing inside a batch, so a foreign producer may have sent anything."""
        broken = bytearray(encode_batch([Message(head(1) + b"payload")], "none"))
        broken[-8] ^= 0xFF
        data = bytes(broken) + encode_batch([Message(head(2))], "none")
        self.assertEqual(result_of(named_schemas(data, 100)), {2})

    def test_a_set_that_becomes_too_large_is_refused(self) -> None:
        """As it is by readers: its ids are not known, so it does not pass."""
        data = encode_batch([Message(bytes(1 << 20))] * 65, "gzip")
        self.assertRaises(WrapperTooLarge, result_of, named_schemas(data, 0))
