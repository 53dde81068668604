"""Fuzz of the Kafka listener: every API at every version, with any bytes.

LOGD_FUZZ_EXAMPLES=20000 LOGD_FUZZ_SEED=7 python -m twisted.trial tests.broker.kafka.every_request.test_fuzzing
"""

from __future__ import annotations

import os
import time
from random import Random

from twisted.logger import LogLevel, formatEvent

from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.kafka.apis import APIS
from logd.protocol.kafka.wire_batches import base_offset_of
from logd.protocol.message import Message
from logd.protocol.wrapper import encode_wrapper
from tests.broker.kafka.every_request.random_requests import RequestWriter, mutated
from tests.broker.kafka.fetches import fetch
from tests.broker.kafka.rig import KafkaTestCase

EXAMPLES = int(os.environ.get("LOGD_FUZZ_EXAMPLES", "300"))
SEED = int(os.environ.get("LOGD_FUZZ_SEED", "1"))
#: Seconds of the processor that one request may take: nobody else is served meanwhile.
MOST_SECONDS = 1.0
_LEVELS = (LogLevel.error, LogLevel.critical)


def record_sets() -> tuple[bytes, ...]:
    """Return sound and unsound records."""
    batch = encode_batch([Message(b"a", key=b"k"), Message(b"b")])
    wire = base_offset_of(batch, 0, 0) + batch[8:]
    return wire, wire * 3, b"", wire[:-1], wire[:30], b"\0" * 100, b"\xff" * 100, wire[:20] + b"\xff" + wire[21:]


class FuzzTests(KafkaTestCase):
    """Any request leaves the broker as it was for everybody else."""

    log_options = {"message_bytes": 100_000}  # noqa: RUF012

    def setUp(self) -> None:
        """Make topics with entries of all kinds."""
        super().setUp()
        self.create("t")
        self.create("u", 3)
        native = self.connect()
        messages = [Message(b"v%d" % number) for number in range(50)]
        plain = loops.encode_set(messages)
        self.produce(native, "t", plain + encode_wrapper("gzip", plain) + encode_batch(messages, "zstd"))

    def test_any_request(self) -> None:
        """It is answered, or its connection is closed with one line; no other client waits."""
        random = Random(SEED)
        other = self.kafka("10.0.0.9")
        kinds = [(api, version) for api in APIS.values() for version in api.versions]
        records = record_sets()
        for number in range(EXAMPLES):
            api, version = kinds[number % len(kinds)]
            flexible = version >= min(api.flexible_from, 3 if api.name == "ApiVersions" else 1 << 15)
            data = RequestWriter(random, api.name, version, records, flexible).write()
            if random.random() < 0.7:
                data = mutated(random, data)
            self.check(data, f"{api.name} version {version}, example {number}: {data.hex()}")
            if number % 10 == 0:
                self.assertEqual(len(self.ask(other, fetch(("t", 0, 0))).responses), 1)

    def check(self, data: bytes, words: str) -> None:
        """Send bytes on a connection of their own, and hang up a while later."""
        peer = self.kafka()
        self.events.events.clear()
        begun = time.process_time()
        peer.send_bytes(data)
        self.settle()
        self.assertLess(time.process_time() - begun, MOST_SECONDS, words)
        wrong = [formatEvent(each) for each in self.events.events if each["log_level"] in _LEVELS]
        self.assertEqual(wrong, [], words)
        closed = self.events.warnings("closing the connection")
        self.assertLessEqual(len(closed), 1, words)
        self.assertEqual(bool(closed), peer.lost, words)
        if not peer.lost:
            peer.lose()
        self.settle()
        self.peers.remove(peer)
        self.assertEqual(self.flushLoggedErrors(), [], words)
