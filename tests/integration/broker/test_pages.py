"""The pages /health and /metrics of a real broker."""

from __future__ import annotations

import json
from urllib.error import HTTPError
from urllib.request import urlopen

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.testing.processes.broker import free_port
from tests.integration.peers import PATIENCE, BrokerTestCase


class PagesTests(BrokerTestCase):
    """A broker that serves its pages on a port of their own."""

    def setUp(self) -> None:
        """Start the broker."""
        self.http = free_port()
        self.options = ("--http", f"tcp:{self.http}:interface=127.0.0.1")
        super().setUp()

    def get(self, page: str) -> tuple[int, str]:
        """Return the status and the text of a page."""
        try:
            with urlopen(f"http://127.0.0.1:{self.http}{page}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def test_both_pages_follow_the_brokers_state(self) -> None:
        """Their figures change with the first topic and its messages, as a monitoring system expects."""
        self.until(lambda: self.get("/health")[0] == 200, "the broker is registered")
        status, text = self.get("/health")
        self.assertEqual((status, json.loads(text)["status"], json.loads(text)["partitions"]), (200, "ok", 0))
        message_set = MessageSet([Message(b"one"), Message(b"two")]).encode()
        self.connect().ask(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, message_set),)))
        self.assertEqual(json.loads(self.get("/health")[1])["partitions"], 1)
        status, text = self.get("/metrics")
        self.assertEqual(status, 200)
        for line in (
            "logd_messages_in_total 2.0",
            f'logd_log_visible_offset{{partition="0",topic="t"}} {len(message_set)}.0',
            "logd_producers_paused 0.0",
        ):
            self.assertIn(line, text)
