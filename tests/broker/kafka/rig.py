"""Put a broker with a listener for Kafka's clients together in memory; requests are those of kafka-python."""

from __future__ import annotations

from functools import partial
from typing import Any

from attrs import define, field
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.producer import ProduceRequest

from logd.broker.broker import Broker
from logd.broker.kafka.fetches.shared_work import FetchWork
from logd.broker.kafka.session import KafkaSessions
from logd.broker.listening.addresses import KafkaListener
from logd.log.partition import PartitionLog
from logd.net.limits.server_limits import ConnectionLimits, Watch
from logd.net.server import Connection, ConnectionFactory
from logd.net.transfer import SendfileSender
from logd.protocol.kafka.conversation import KafkaConversation
from tests.broker.rig import BrokerTestCase, Peer
from tests.net.doubles import PeerTransport

_SIZE_BYTES = 4


@define(eq=False)
class KafkaPeer(Peer):
    """One client of Kafka: it sends requests of kafka-python, each of one version (``MetadataRequest[8](...)``)."""

    #: The requests without an answer, in order, by their correlation ids.
    waiting: dict[int, Any] = field(factory=dict)
    _sent: int = 0
    _received: bytearray = field(factory=bytearray)

    def send(self, *requests: Any) -> None:
        """Send requests in one piece."""
        pieces = []
        for request in requests:
            self._sent += 1
            request.with_header(correlation_id=self._sent, client_id="tests")
            self.waiting[self._sent] = request
            pieces.append(bytes(request.encode(header=True, framed=True)))
        self.send_bytes(b"".join(pieces))

    def answers(self) -> list[Any]:
        """Take the responses that have come back."""
        self._received += self.received()
        found = []
        while len(self._received) >= _SIZE_BYTES:
            size = int.from_bytes(self._received[:_SIZE_BYTES], "big")
            if len(self._received) < _SIZE_BYTES + size:
                break
            body = bytes(self._received[_SIZE_BYTES : _SIZE_BYTES + size])
            del self._received[: _SIZE_BYTES + size]
            request = self.waiting.pop(int.from_bytes(body[:4], "big"))
            kind = ResponseClassRegistry.get_response_class(request.header)
            found.append(kind.decode(body, version=request.version, header=True))
        return found


class KafkaTestCase(BrokerTestCase):
    """A broker for each test, which Kafka's clients can connect to."""

    _fetch_work: tuple[Broker, FetchWork] | None = None
    #: True while damage is about to be healed.
    is_healing = False

    def may_heal(self, log: PartitionLog, position: int) -> bool:
        """Return whether that is so."""
        return self.is_healing

    def fetch_work(self) -> FetchWork:
        """Return the work that the fetches of all clients share."""
        if self._fetch_work is None or self._fetch_work[0] is not self.broker:
            self._fetch_work = self.broker, FetchWork(self.reads, self.broker.healing.suspect, self.may_heal)
        return self._fetch_work[1]

    def kafka(self, host: str = "10.0.0.8", listener: KafkaListener = KafkaListener()) -> KafkaPeer:
        """Connect a client of Kafka."""
        limits, counters = ConnectionLimits(100, 1 << 20, None, None, None), self.broker.counters
        watch: Watch[Connection] = Watch(self.process, limits, counters, self.broker.resting)
        factory = ConnectionFactory(
            partial(KafkaConversation, 1 << 20),
            KafkaSessions(self.broker, listener, self.fetch_work()),
            SendfileSender(self.reads),
            self.process,
            limits,
            counters,
            watch=watch,
        )
        connection: Connection = factory.buildProtocol(None)
        peer = KafkaPeer(connection, PeerTransport(host=host))
        self.peers.append(peer)
        connection.makeConnection(peer.transport)
        peer.pump()
        return peer

    def kafka_produce(self, peer: KafkaPeer, topic: str, records: bytes, partition: int = 0) -> Any:
        """Produce batches as they are on the wire, with acks -1; return the answer's only part."""
        topics = ProduceRequest.TopicProduceData
        data = topics(name=topic, partition_data=[topics.PartitionProduceData(index=partition, records=records)])
        request = ProduceRequest[8](transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[data])
        response = self.ask(peer, request)
        return response.responses[0].partition_responses[0]
