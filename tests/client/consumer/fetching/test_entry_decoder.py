"""Tests of logd.client.consumer.fetching.entry_decoder: the messages decoded of the bytes held, and what is next."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.fetching.entry_decoder import EntryDecoder
from logd.client.settings import ConsumerSettings
from logd.protocol.batch import encode_batch
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.message_set import wrap

PLAIN = [encode_set([Message(b"message %d" % number)]) for number in range(4)]
SIZE = len(PLAIN[0])
START = 1000


class EntryDecoderTests(SynchronousTestCase):
    """A decoder whose bytes begin at START."""

    def decoder(self, data: bytes) -> EntryDecoder:
        """Return a decoder that holds ``data``, ready to be decoded."""
        decoder = EntryDecoder("t", 0, ConsumerSettings())
        decoder.restart(START)
        decoder.held.add(data)
        self.assertTrue(decoder.held.more())
        return decoder

    def payloads(self, decoder: EntryDecoder, limit: int) -> list[bytes | None]:
        """Decode and advance; return the payloads."""
        decoded = decoder.decode(limit)
        decoder.advance(decoded)
        return [message.payload for message in decoded.messages]

    def test_at_most_limit_messages_are_decoded(self) -> None:
        """The next call goes on behind them."""
        decoder = self.decoder(b"".join(PLAIN))
        self.assertEqual(self.payloads(decoder, 3), [b"message 0", b"message 1", b"message 2"])
        self.assertEqual((decoder.position, decoder.unfinished), (START + 3 * SIZE, False))
        self.assertEqual(self.payloads(decoder, 3), [b"message 3"])
        self.assertFalse(decoder.held)

    def test_decoding_may_begin_inside_a_wrapper(self) -> None:
        """Messages before the wanted position are left out, and the wrapper stays open until it is decoded."""
        wrapper = wrap([Message(b"message %d" % number) for number in range(4)], "gzip")
        whole = self.decoder(wrapper).decode(100).messages
        decoder = self.decoder(wrapper)
        decoder.begin_at(whole[1].id + 1)
        self.assertEqual(decoder.position, whole[1].id + 1)
        self.assertEqual(self.payloads(decoder, 1), [b"message 2"])
        self.assertEqual((decoder.unfinished, decoder.held.position), (True, START))
        self.assertEqual(self.payloads(decoder, 1), [b"message 3"])

    def test_decoding_may_begin_inside_a_batch(self) -> None:
        """Messages before the wanted position are left out; a call that decodes only such ones gives none."""
        messages = [Message(b"message %d" % number) for number in range(4)]
        for codec in ("none", "lz4"):
            whole = self.decoder(encode_batch(messages, codec)).decode(100).messages
            decoder = self.decoder(encode_batch(messages, codec))
            decoder.begin_at(whole[1].id + 1)
            self.assertEqual(decoder.position, whole[1].id + 1)
            found: list[bytes | None] = []
            while not found:
                found += self.payloads(decoder, 1)
            self.assertEqual((decoder.unfinished, decoder.held.position), (True, START))
            while decoder.unfinished:
                found += self.payloads(decoder, 1)
            self.assertEqual(found, [b"message 2", b"message 3"])

    def test_raw_bytes_begin_with_the_entry_at_hand(self) -> None:
        """The position inside it is forgotten."""
        decoder = self.decoder(PLAIN[0])
        decoder.begin_at(START + 5)
        self.assertEqual(decoder.take(), (START, PLAIN[0]))
        self.assertEqual((decoder.position, decoder.take()), (START + SIZE, None))

    def test_an_entry_is_told_from_the_middle_of_one(self) -> None:
        """A position found again must be the start of an undamaged entry."""
        decoder = self.decoder(b"".join(PLAIN))
        found = [position for position in range(START, START + 3 * SIZE) if decoder.is_entry_at(position)]
        self.assertEqual(found, [START, START + SIZE, START + 2 * SIZE])
