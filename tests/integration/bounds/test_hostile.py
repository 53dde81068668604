"""Random bytes and spoiled requests at a real broker's port, while another client is served."""

from __future__ import annotations

import contextlib
import os
import random

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, LegacyRequest, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.requests import NativeRequest, encode_request
from tests.integration.peers import BrokerTestCase, Peer

ROUNDS = int(os.environ.get("LOGD_TEST_ROUNDS", "3")) * 100

SET = MessageSet([Message(b"sound"), Message(b"keyed", key=b"k", timestamp=5)]).encode()
REQUESTS: tuple[LegacyRequest | NativeRequest, ...] = (
    Produce("hostile", 0, SET),
    MultiProduce((Produce("hostile", -1, SET), Produce("t", 0, SET))),
    Fetch("t", 0, 0, 1000),
    MultiFetch((Fetch("t", 0, 0, 10), Fetch("t", 0, 5, 100))),
    Offsets("t", 0, -1, 10),
    Metadata(("hostile", "t")),
    ProduceAck(-1, 100, (ProducePart("t", 0, 0, False, SET), ProducePart("hostile", -1, 0, True, SET))),
    FetchWait(10, 1, 1000, (FetchPart("t", 0, 0, 0, 1000), FetchPart("hostile", 0, 0, 3, 10, True))),
    DescribeLog("t", 0, (1, 5, 100), 5),
)


class HostileTests(BrokerTestCase):
    """A broker whose port gets noise instead of requests."""

    def test_the_broker_survives_random_bytes(self) -> None:
        """Another client is answered all along, memory stays bounded, nothing is logged as a bug, logs stay sound."""
        seed = random.Random(20110612)
        served = self.connect()
        kept = MessageSet([Message(b"kept")]).encode()
        self.assertEqual(served.ask(ProduceAck(-1, 0, (ProducePart("kept", 0, 0, False, kept),))).parts[0].error, 0)
        memory = self.memory()
        for number in range(ROUNDS):
            with contextlib.suppress(ConnectionError), Peer(self.broker.port) as peer:
                for _ in range(seed.randrange(1, 4)):
                    peer.send(self.bytes_for(seed))
                if number % 10 == 0:
                    peer.socket.settimeout(0.01)
                    with contextlib.suppress(TimeoutError):
                        peer.socket.recv(1000)
            if number % 5 == 0:
                self.assertEqual(served.ask(Fetch("kept", 0, 0, 1000)).message_set, kept)
        self.assertEqual(served.ask(Fetch("kept", 0, 0, 1000)).message_set, kept)
        self.assertLess(self.memory() - memory, 32 << 20)
        self.assertNotIn("Traceback", self.broker_log())
        self.assertEqual(self.broker.stop(), 0)
        self.broker.start()
        self.assertEqual(self.connect().ask(Fetch("kept", 0, 0, 1000)).message_set, kept)

    def bytes_for(self, seed: random.Random) -> bytes:
        """Return noise, noise in a frame, or requests of which some bytes were changed."""
        kind = seed.randrange(4)
        if kind == 0:
            return seed.randbytes(seed.randrange(1, 300))
        if kind == 1:
            noise = seed.randbytes(seed.randrange(2, 300))
            return len(noise).to_bytes(4, "big") + b"\0" + bytes([seed.randrange(24)]) + noise[2:]
        data = bytearray(b"".join(b"".join(encode_request(request)) for request in seed.choices(REQUESTS, k=3)))
        for _ in range(seed.randrange(4)):
            data[seed.randrange(len(data))] = seed.randrange(256)
        return bytes(data if kind == 2 else data[: seed.randrange(len(data))])
