"""Tests of the comparison with Apache Kafka under its own clients, without Apache Kafka."""

from __future__ import annotations

from pathlib import Path
from socket import create_server
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.kafka_clients import compared
from logd.bench.systems.places import SystemPlaces
from logd.bench.systems.servers.kafka_pair import KafkaByKafkaClients, LogdByKafkaClients
from logd.bench.systems.servers.kafka_wire import answers_kafka


class ServingTests(SynchronousTestCase):
    """``answers_kafka``."""

    def test_a_broker_that_serves_kafka_clients_answers(self) -> None:
        """A real broker, started as the bench starts it, creates the topic of a load by its native port."""
        folder = Path(self.mktemp())
        folder.mkdir()
        peer = LogdByKafkaClients(SystemPlaces(), str(folder.resolve()))
        self.assertFalse(answers_kafka(peer.port))
        peer.start()
        self.addCleanup(peer.stop)
        self.assertTrue(answers_kafka(peer.port))
        self.assertFalse(answers_kafka(peer.native_port))
        peer.create("load")

    def test_a_server_that_answers_something_else_does_not_serve(self) -> None:
        """So a port that another program has is no broker."""
        server = create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)

        def refuse() -> None:
            with server.accept()[0] as connection:
                connection.sendall(b"220 mail is served here\r\n")

        thread = Thread(target=refuse)
        thread.start()
        self.assertFalse(answers_kafka(server.getsockname()[1]))
        thread.join()


class RatioTests(SynchronousTestCase):
    """``compared``."""

    def test_each_figure_that_both_have_is_compared(self) -> None:
        """A measurement that only one of the two has is left out."""

        def figure(system: str, rate: int, batch: int) -> dict[str, object]:
            head: dict[str, object] = {"system": system, "client": "tool", "part": "produce", "batch": batch}
            return {**head, "messages_per_second": rate, "server_processor_seconds": 1.0, "server_peak_megabytes": 50.0}

        ours, theirs = LogdByKafkaClients.name, KafkaByKafkaClients.name
        result = {
            "starts": [
                {"system": ours, "seconds": 0.5, "idle_megabytes": 60.0},
                {"system": theirs, "seconds": 5.0, "idle_megabytes": 600.0},
            ],
            "figures": [figure(ours, 300, 78), figure(theirs, 100, 78), figure(ours, 300, 4761)],
        }
        found = [each.to_json() for each in compared(result)]
        self.assertEqual([each["ratio"] for each in found], [0.1, 0.1, 3.0, 1.0, 1.0])
        self.assertEqual(found[2]["what"], "produce, tool, batches of 78: messages/s")
