"""Topics of a real broker are made and deleted while they are used."""

from __future__ import annotations

import threading
from pathlib import Path

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.create_delete_topic import CreateTopic, DeleteTopic
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducedPart, ProducePart
from tests.integration.peers import BrokerTestCase, Peer

#: Errors with which a set or a wait may be answered when its topic is deleted meanwhile.
GONE = {101, 105, 106}


def some_set(number: int) -> bytes:
    """Return a set that differs from those of other numbers."""
    return MessageSet([Message(b"%d" % number), Message(bytes(number % 500))]).encode()


class TopicsTests(BrokerTestCase):
    """A broker that clients reach by an address of its own."""

    options = ("--advertise", "broker.example:1234", "--id", "7")

    def test_a_topic_made_again_has_a_new_uuid(self) -> None:
        """It begins at 0, so that clients can tell it from the deleted one; metadata give the advertised address."""
        peer = self.connect()
        uuids = []
        for number in range(3):
            created = peer.ask(CreateTopic("t", 2, {"segment.bytes": 1000}))
            uuids.append(created.uuid)
            (part,) = peer.ask(ProduceAck(-1, 0, (ProducePart("t", 1, 0, False, some_set(number)),))).parts
            self.assertEqual(part.first_id, 0)
            metadata = peer.ask(Metadata(("t",)))
            self.assertEqual(metadata.topics[0].uuid, created.uuid)
            self.assertEqual(metadata.brokers, ((7, "broker.example", 1234),))
            self.assertEqual(peer.ask(DescribeLog("t", 1)).uuid, created.uuid)
            self.assertEqual(peer.ask(DeleteTopic("t")).error, 0)
            self.assertEqual(peer.ask(Metadata(None)).topics, ())
        self.assertEqual(len(set(uuids)), 3)
        self.assertEqual([path.name for path in Path(self.data).iterdir() if path.is_dir()], ["coordination"])

    def test_nobody_hangs_when_a_topic_is_deleted_under_load(self) -> None:
        """Consumers that wait and a producer get an error of a deleted topic; in each life of it ids have no gap."""
        rounds = 5
        done = threading.Event()
        answers: list[ProducedPart] = []
        errors: list[int] = []
        waits: list[int] = []

        def produce() -> None:
            with Peer(self.broker.port) as peer:
                number, restart = 0, False
                while not done.is_set():
                    window: list[ProduceAck] = []
                    for _ in range(10):
                        part = ProducePart("t", 0, 0, restart and not window, some_set(number))
                        window.append(ProduceAck(-1, 10_000, (part,)))
                        number += 1
                    peer.begin(*window)
                    parts = [peer.answer(request).parts[0] for request in window]
                    restart = any(part.error for part in parts)
                    errors.extend(part.error for part in parts if part.error)
                    answers.extend(part for part in parts if not part.error)

        def consume() -> None:
            with Peer(self.broker.port) as peer:
                offset = 0
                while not done.is_set():
                    (part,) = peer.ask(FetchWait(200, 1, 0, (FetchPart("t", 0, 0, offset, 10_000),))).parts
                    offset = 0 if part.error else offset + len(part.message_set)
                    waits.append(part.error)

        threads = [threading.Thread(target=produce), *[threading.Thread(target=consume) for _ in range(3)]]
        for thread in threads:
            thread.start()
        try:
            peer = self.connect()
            for _ in range(rounds):
                before = len(answers)
                self.until(lambda before=before: len(answers) > before + 50, "the producer goes on")  # type: ignore[misc]
                self.assertEqual(peer.ask(DeleteTopic("t")).error, 0)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        self.assertLessEqual(set(errors), GONE)
        self.assertLessEqual(set(waits), {0, 1, *GONE})
        # Within each life of the topic ids follow one another, from 0.
        lives = 0
        at = 0
        for part in answers:
            if part.first_id == 0:
                lives, at = lives + 1, 0
            self.assertEqual(part.first_id, at)
            at = part.next_position
        self.assertIn(lives, (rounds, rounds + 1))
        self.assertNotIn("Traceback", self.broker_log())
        self.assertEqual(self.broker.stop(), 0)

    def test_an_answer_on_its_way_outlives_its_topic(self) -> None:
        """A consumer that reads slowly gets all of its ten megabytes though the topic is deleted meanwhile."""
        large = MessageSet([Message(bytes([number]) * 900_000) for number in range(10)]).encode()
        peer, slow = self.connect(), self.connect(receive_buffer=4096)
        peer.ask(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, large),)))
        slow.begin(Fetch("t", 0, 0, len(large)))
        got = slow.receive(6 + 100_000)
        self.assertEqual(peer.ask(DeleteTopic("t")).error, 0)
        self.assertEqual((got + slow.receive(len(large) - 100_000))[6:], large)
