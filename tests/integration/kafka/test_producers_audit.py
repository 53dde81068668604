"""A real broker that counts for the audit what a client of today's Kafka produces."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import CoordinationProcess
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
            ended = all(each["state"] != "pending" for each in verdicts)
            return bool(ended and sum(each["expected"] for each in verdicts) == 302)

        until(judged)
        self.assertEqual({each["state"] for each in verdicts}, {"complete"}, verdicts)
        self.assertEqual(sum(each["seen"] for each in verdicts), 302)


class TlsAuditTests(SynchronousTestCase):
    """Two brokers whose native listeners have TLS: one of them publishes to itself, the other one to that."""

    def test_the_counts_of_both_arrive(self) -> None:
        """Over connections that trust the certificate that both have."""
        folder = os.path.abspath(self.mktemp())
        os.makedirs(f"{folder}/trusted")
        key, certificate = f"{folder}/key", f"{folder}/trusted/logd.pem"
        kind = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -addext subjectAltName=IP:127.0.0.1"
        command = f"openssl req -x509 {kind} -nodes -days 2 -subj /CN=logd -keyout {key} -out {certificate}"
        subprocess.run(command.split(), check=True, capture_output=True)
        audit = ("--set", "kafka.audit.enabled=true", "--set", f"kafka.audit.window.ms={int(WINDOW * 1000)}")
        ports = [free_port(), free_port()]
        with CoordinationProcess(f"{folder}/tree") as tree:
            brokers = []
            for number, port in enumerate(ports, 1):
                native = free_port()
                listen = f"ssl:{native}:privateKey={key}:certKey={certificate}:interface=127.0.0.1"
                kafka = f"--kafka-listen=tcp:{port}:interface=127.0.0.1"
                options = ("--id", str(number), "--listen", listen, kafka, *audit)
                brokers.append(BrokerProcess(f"{folder}/{number}", options, native, zookeeper=tree.hosts))
                self.addCleanup(brokers[-1].kill)
                brokers[-1].start()
            # Else the first one may make the topic for itself alone.
            until(lambda: all(len(KafkaClients(port).brokers()) == 2 for port in ports))
            tls = ("--broker", f"tls:{brokers[0].address}:trustRoots={folder}/trusted")
            logd("topics", "create", "t", "--partitions", "2", *tls)
            clients = KafkaClients(ports[0])
            for partition in range(2):
                self.assertEqual(clients.produce("t", [b"line"] * 100, partition), [])
            published: list[dict[str, Any]] = []

            def arrived() -> bool:
                said = logd("consume", "_audit", "--from", "earliest", "--exit-at-end", *tls).stdout
                published[:] = [each for each in map(json.loads, said.splitlines()) if each["topic"] == "t"]
                return bool(sum(each["count"] for each in published) == 200)

            until(lambda: "_audit" in logd("topics", "list", *tls).stdout)
            until(arrived)
            self.assertEqual(len({json.dumps(each["reporter"]) for each in published}), 2, published)
