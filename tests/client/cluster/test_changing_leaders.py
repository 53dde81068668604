"""Tests of the order of messages while the leader of their partition changes."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail

from logd.client.cluster.link import ClientConnection
from logd.client.producer.pending_send import Sent
from logd.clientcore.addresses import Address
from logd.errors import BrokerUnavailable
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.producers import ProducerTestCase


class ChangingLeadersTests(ProducerTestCase):
    """Two brokers that answer slowly; the leader goes away, and comes back."""

    def setUp(self) -> None:
        """Keep the sends."""
        super().setUp()
        #: True while the first broker cannot be connected to.
        self.down = False
        self.sent: list[Deferred[Sent]] = []

    def connect(self, address: Address) -> Deferred[ClientConnection]:
        """Connect, but to the first broker only while it is up, and at once."""
        if address == ("model", 6668):
            return self.broker.connect(address)
        if self.down:
            return fail(BrokerUnavailable("it is down"))
        delay, self.broker.delay = self.broker.delay, 0.0
        connecting = self.broker.connect(address)
        self.broker.delay = delay
        return connecting

    def test_a_search_that_was_due_does_not_change_the_leader_under_sets_in_flight(self) -> None:
        """Failed attempts to connect begin a search while another one reads metadata; that one's answer ends both."""
        producer = self.producer(connect=self.connect, batch_messages=1)
        self.sent.append(producer.send("t", b"0", partition=0))
        self.run_for(1.0)
        self.broker.delay, self.down = 0.5, True
        self.broker.lose_all()
        self.broker.leaders["t", 0] = 8

        def sent_to_the_other() -> bool:
            return any(isinstance(each, ProduceAck) for each in self.broker.connections[-1].waiting.values())

        while not (self.broker.connections and sent_to_the_other()):
            self.sent.append(producer.send("t", b"%d" % len(self.sent), partition=0))
            self.run_for(0.05)
        self.run_for(1.0)  # further sets are on their way by now
        self.down = False
        del self.broker.leaders["t", 0]
        for _ in range(100):
            self.sent.append(producer.send("t", b"%d" % len(self.sent), partition=0))
            self.run_for(0.05)
        self.run_for(10.0)
        for each in self.sent:
            self.successResultOf(each)
        first = list(dict.fromkeys(self.log.payloads()))
        self.assertEqual(first, [b"%d" % number for number in range(len(self.sent))])
