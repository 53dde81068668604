"""A real broker is killed under load, again and again: acknowledged sets stay, and no id changes.

LOGD_TEST_ROUNDS says how often, 3 times unless it is set. SIGKILL does not lose what was not synced; the in-memory
disk of tests/log does. Here the rest is tested: processes, sockets, recovery of real files.
"""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

from logd.protocol.loops import check_set
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.integration.peers import PATIENCE, BrokerTestCase, Peer

ROUNDS = int(os.environ.get("LOGD_TEST_ROUNDS", "3"))
PRODUCERS = 3
PARTITIONS = 2
#: Requests of one producer in flight.
WINDOW = 10


class KillTests(BrokerTestCase):
    """A broker with small segments and frequent checkpoints, killed while producers send."""

    options = ("--set", "segment.bytes=300000", "--set", "checkpoint.ms=50", "--set", "topics.partitions=2")

    def setUp(self) -> None:
        """Start the broker; no set is acknowledged yet."""
        super().setUp()
        self.seed = random.Random(2011)
        #: (partition, id of the first message) -> the set that was acknowledged there.
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.wrong: list[str] = []

    def produce(self, number: int, until: int, reached: threading.Semaphore) -> None:
        """Produce until the connection is lost; release ``reached`` once ``until`` sets are acknowledged."""
        seed = random.Random(self.seed.random() + number)
        count = 0
        try:
            with Peer(self.broker.port) as peer:
                while True:
                    window = [self.request(seed) for _ in range(WINDOW)]
                    peer.begin(*window)
                    for request in window:
                        for asked, part in zip(request.parts, peer.answer(request).parts, strict=True):
                            if part.error:
                                self.wrong.append(f"error {part.error}")
                            self.acknowledged[part.stored_partition, part.first_id] = bytes(asked.message_set)
                    count += WINDOW
                    if count >= until > count - WINDOW:
                        reached.release()
        except OSError:
            reached.release()

    def request(self, seed: random.Random) -> ProduceAck:
        """Return a request with some sets for some partitions."""
        parts = []
        for _ in range(seed.randrange(1, 4)):
            messages = [Message(seed.randbytes(seed.randrange(600))) for _ in range(seed.randrange(1, 20))]
            compression = seed.choice(("none", "none", "none", "zstd"))
            encoded = MessageSet(messages, compression=compression).encode()
            parts.append(ProducePart("t", seed.randrange(-1, PARTITIONS), 0, False, encoded))
        return ProduceAck(-1, 0, tuple(parts))

    def log(self, partition: int) -> bytes:
        """Return all bytes that a consumer gets of a partition."""
        got = bytearray()
        with Peer(self.broker.port) as peer:
            while True:
                answer = peer.ask(Fetch("t", partition, len(got), 1 << 24))
                self.assertEqual(answer.error, 0)
                if not answer.message_set:
                    return bytes(got)
                got += answer.message_set

    def check(self) -> None:
        """Check that every acknowledged set is at its id, and that every entry is sound."""
        logs = {partition: self.log(partition) for partition in range(PARTITIONS)}
        for (partition, first_id), message_set in self.acknowledged.items():
            found = logs[partition][first_id : first_id + len(message_set)]
            if found != message_set:
                self.fail(f"the set acknowledged at {first_id} of partition {partition} is not there")
        for log in logs.values():
            check_set(log, 1_000_000)

    def test_acknowledged_sets_survive_every_kill(self) -> None:
        """In each round three producers send at the moment of the kill, and the logs are read after the start."""
        for _ in range(ROUNDS):
            before = len(self.acknowledged)
            reached = threading.Semaphore(0)
            until = self.seed.randrange(1, 30)
            threads = [
                threading.Thread(target=self.produce, args=(number, until, reached)) for number in range(PRODUCERS)
            ]
            for thread in threads:
                thread.start()
            for _ in range(self.seed.randrange(1, PRODUCERS + 1)):
                self.assertTrue(reached.acquire(timeout=PATIENCE))
            self.assertEqual(self.broker.kill(), -9)
            for thread in threads:
                thread.join(PATIENCE)
                self.assertFalse(thread.is_alive())
            self.broker.start()
            self.assertEqual(self.wrong, [])
            self.assertGreater(len(self.acknowledged), before)
            self.check()
        # There were segments to recover, and the broker never took a partition offline.
        self.assertGreater(len(list(Path(self.data, "t-0").glob("*.log"))), 0)
        self.assertNotIn("offline", self.broker_log())
        self.assertEqual(self.broker.stop(), 0)
