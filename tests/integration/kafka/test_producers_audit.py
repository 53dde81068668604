"""A real broker that counts for the audit what a client of today's Kafka produces."""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.kafka.test_listeners import KafkaClients, logd, until

#: Seconds.
WINDOW = 1.0


class KafkaAuditTests(SynchronousTestCase):
    """``logd audit`` over a producer of confluent-kafka and a native consumer."""

    def test_the_windows_are_complete(self) -> None:
        """Also where the broker is stopped before a window's end; what an audited producer sends is counted once."""
        port = free_port()
        audit = ("--set", "kafka.audit.enabled=true", "--set", f"kafka.audit.window.ms={int(WINDOW * 1000)}")
        options = (f"--kafka-listen=tcp:{port}:interface=127.0.0.1", *audit)
        broker = BrokerProcess(os.path.abspath(self.mktemp()), options)
        broker.start()
        self.addCleanup(broker.kill)
        clients = KafkaClients(port, enable_idempotence=True)
        self.assertEqual(clients.produce("t", [b"line %d" % number for number in range(300)]), [])
        self.assertEqual(broker.stop(), 0)
        broker.start()
        self.assertEqual(clients.produce("t", [b"more"]), [])
        windows = ("--broker", broker.address, "--audit", "--audit-window", str(WINDOW))
        logd("produce", "t", *windows, given="native\n")
        read = logd("consume", "t", "--from", "earliest", "--exit-at-end", *windows).stdout
        self.assertEqual(len(read.splitlines()), 302)
        verdicts: list[dict[str, Any]] = []

        def judged() -> bool:
            said = logd("audit", "--broker", broker.address, "--window", str(WINDOW), "--grace", "0", "--json").stdout
            verdicts[:] = [each for each in map(json.loads, said.splitlines()) if each["tier"] == "consumed"]
            return bool(sum(each["expected"] for each in verdicts) == 302)

        until(judged)
        self.assertEqual({each["state"] for each in verdicts}, {"complete"}, verdicts)
        self.assertEqual(sum(each["seen"] for each in verdicts), 302)
