"""The session of one connection: passes each request to its handler, in order of arrival."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.replication.replica_requests import ReplicaRequests
from logd.broker.requests.authenticate import AuthenticateRequests
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.create_delete_topic import AdministrationRequests
from logd.broker.requests.describe import DescribeRequests
from logd.broker.requests.fetch import FetchRequests
from logd.broker.requests.fetch_session_requests import FetchSessionRequests
from logd.broker.requests.produce import ProducerCutOff, ProduceRequests
from logd.broker.security.prepare_group import PrepareGroupRequests
from logd.broker.security.requester import Requester
from logd.broker.security.rights import Rights
from logd.net.server import Connection
from logd.protocol.conversation.interfaces import Received
from logd.protocol.requests.alter_topic import AlterTopic
from logd.protocol.requests.authenticate import Authenticate
from logd.protocol.requests.create_delete_topic import CreateTopic, CreateTopicV1, CreateTopicV2, DeleteTopic
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.fetch_session import FetchWaitV1
from logd.protocol.requests.fetch_wait import FetchWait
from logd.protocol.requests.groups.prepare_group import PrepareGroup
from logd.protocol.requests.legacy_requests import Fetch, JoinedProduces, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.metadata import Metadata, MetadataV1
from logd.protocol.requests.produce_ack import ProduceAck
from logd.protocol.requests.repair import Repair
from logd.protocol.requests.replica_fetch import (
    ReplicaFetch,
    ReplicaFetchResponse,
    ReplicaFetchV1,
    ReplicaProgress,
)
from logd.protocol.requests.replicas.describe_replicas import DescribeReplicas, DescribeReplicasV1
from logd.protocol.requests.replicas.operations import DrainBroker, ElectLeaders, ElectLeadersV1, Reassign
from logd.protocol.requests.replicas.replica_read import ReplicaRead, ReplicaReadResponse, ReplicaReadV1
from logd.protocol.requests.requests import Unsupported

if TYPE_CHECKING:
    from logd.broker.replication.control.operator_requests import OperatorRequests

_log = Logger()

#: The requests whose answers carry messages.
_FETCHES = frozenset((Fetch, MultiFetch, FetchWait, FetchWaitV1))
#: Takes a request object and returns its response object, or a Deferred of the response.
Handler = Callable[[Any], Any]


class BrokerSession:
    """The session of one connection. See ``logd.net.session.Session``."""

    #: The name of the protocol in metrics.
    protocol = "native"

    def __init__(self, broker: BrokerCore, connection: Connection, on_lost: Callable[[BrokerSession], None]) -> None:
        """``on_lost(session)`` is called when the connection is lost."""
        self._broker = broker
        self._on_lost = on_lost
        self.connection = connection
        self.requester = Requester.at(connection.peer)
        self.rights = Rights(broker.authorizer, self.requester)
        self._authenticating = AuthenticateRequests(broker, connection, self.requester, self._authenticated)
        self._producing = ProduceRequests(broker, connection, self.rights)
        self._fetching = FetchRequests(broker, self.rights)
        self._fetch_sessions = FetchSessionRequests(broker, self.rights)
        self._describing = DescribeRequests(broker, self.rights)
        self._replicas = ReplicaRequests(broker.replication, broker.clock)
        administration = AdministrationRequests(broker, self.rights)
        self.has_produced = False
        #: The handler of each kind of request, except produce requests.
        self.handlers: dict[type, Handler] = {
            Fetch: self._fetching.fetch,
            MultiFetch: self._fetching.multi_fetch,
            FetchWait: self._fetching.fetch_wait,
            FetchWaitV1: self._fetch_sessions.fetch,
            Offsets: self._describing.offsets,
            Metadata: self._describing.metadata,
            MetadataV1: self._describing.metadata,
            DescribeLog: self._describing.describe_log,
            CreateTopic: administration.create_topic,
            CreateTopicV1: administration.create_topic_v1,
            CreateTopicV2: administration.create_topic_v2,
            AlterTopic: administration.alter_topic,
            DeleteTopic: administration.delete_topic,
            PrepareGroup: PrepareGroupRequests(broker.group_access, self.rights).prepare,
            Repair: self._repair,
            Reassign: lambda request: self._operators().reassign(request),
            ElectLeaders: lambda request: self._operators().elect(request),
            ElectLeadersV1: lambda request: self._operators().elect(request),
            DrainBroker: lambda request: self._operators().drain(request),
            DescribeReplicas: lambda request: self._operators().describe(request),
            DescribeReplicasV1: lambda request: self._operators().describe(request),
            ReplicaFetch: self._fetch_as_replica,
            ReplicaFetchV1: self._fetch_as_replica,
            ReplicaRead: self._read_as_replica,
            ReplicaReadV1: self._read_as_replica,
            Unsupported: self._describing.unsupported,
        }

    def take(self, received: Sequence[Received]) -> int:
        """See ``logd.net.session.Session``."""
        taken = joined = 0
        meter = self.connection.meter
        producing = self._producing
        produce = producing.produce
        producing.arrived = self._broker.clock.seconds()
        left = iter(received)
        try:
            if producing.waiting is not None and producing.resume():
                request, _ = next(left)  # the waiting request is still the first
                taken = 1
                joined = len(request.sizes) - 1 if type(request) is JoinedProduces else 0
            for request, token in left if producing.waiting is None else ():
                kind = type(request)
                if kind is Produce:
                    if not self.has_produced:
                        self._gate_producer()
                    if not produce(request):
                        break
                elif kind is JoinedProduces:
                    if not self.has_produced:
                        self._gate_producer()
                    if not producing.joined_produces(request):
                        break
                    joined += len(request.sizes) - 1
                elif kind is ProduceAck:
                    self._gate_producer()
                    if not producing.produce_ack(request, token):
                        break
                elif kind is MultiProduce:
                    self._gate_producer()
                    if not producing.multi_produce(request):
                        break
                elif kind is Authenticate:
                    producing.append()
                    self._authenticating.authenticate(request, token, self.has_produced)
                    taken += 1
                    break  # what follows is taken once it is known who asks
                elif kind is ReplicaProgress:
                    if self.rights.broker_refusal() is None:
                        self._replicas.progress(request)
                elif meter is not None and kind in _FETCHES and meter.holds_fetch():
                    break
                else:
                    self._authenticating.has_begun = True
                    # A fetch after a produce reads the messages of that produce.
                    producing.append()
                    self._answer(token, self.handlers[kind](request), kind)
                taken += 1
        except ProducerCutOff:
            pass  # earlier requests are appended, later ones are not
        producing.append()
        if taken:
            producing.creations_settled()
        self._broker.counters.requests += taken + joined
        return taken

    def lost(self) -> None:
        """See ``logd.net.session.Session``."""
        self._authenticating.lost()
        self._producing.lost()
        self._fetching.lost()
        self._fetch_sessions.lost()
        self._replicas.lost()
        self._describing.lost()
        self._on_lost(self)

    def stop(self) -> None:
        """Refuse new sets, and answer waiting fetches with the messages there are, as the broker is stopping."""
        self._producing.stopping = True
        self._fetching.finish()
        self._fetch_sessions.finish()
        self._replicas.finish()

    def rights_changed(self) -> None:
        """Look again at what waits, as access rules have changed."""
        self._fetching.finish()
        self._fetch_sessions.rights_changed()

    def _repair(self, request: Repair) -> Any:
        """Repair a log; the handler is imported for the first such request, as most brokers never have one."""
        from logd.broker.requests.repair import RepairRequests

        return RepairRequests(self._broker, self.rights).repair(request)

    def _operators(self) -> OperatorRequests:
        """Return the handler of operators' requests, which is imported for the first such request."""
        from logd.broker.replication.control.operator_requests import OperatorRequests

        return OperatorRequests(self._broker, self.rights)

    def _fetch_as_replica(self, request: ReplicaFetch | ReplicaFetchV1) -> Any:
        """Answer another broker that copies logs from here; nobody else may."""
        refusal = self.rights.broker_refusal()
        if refusal is not None:
            return ReplicaFetchResponse(refusal.code, text=str(refusal))
        return self._replicas.fetch(request)

    def _read_as_replica(self, request: ReplicaRead | ReplicaReadV1) -> Any:
        """Answer another broker that heals its own log with bytes from here; nobody else may."""
        refusal = self.rights.broker_refusal()
        if refusal is not None:
            return ReplicaReadResponse(refusal.code, text=str(refusal))
        return self._broker.healing.read(request)

    def _authenticated(self) -> None:
        self._broker.quotas.authenticated(self)

    def _gate_producer(self) -> None:
        """Have too many unflushed bytes in the broker pause this connection, from its first produce on."""
        if not self.has_produced:
            self.has_produced = True
            self._broker.gate.add(self.connection)

    def _answer(self, token: Any, response: Any, kind: type) -> None:
        """Answer with a handler's response, possibly a Deferred."""
        arrived = self._producing.arrived
        if isinstance(response, Deferred):
            response.addCallback(self._answered, token, kind, arrived)
            response.addErrback(self._failed)
        else:
            self._answered(response, token, kind, arrived)

    def _answered(self, response: Any, token: Any, kind: type, arrived: float) -> None:
        broker = self._broker
        broker.counters.latencies.of(self.protocol, kind.__name__.removesuffix("V1")).observe(
            broker.clock.seconds() - arrived
        )
        self.connection.answer(token, response)

    def _failed(self, failure: Failure) -> None:
        _log.failure("a request of {peer} failed; closing its connection", failure, peer=self.connection.peer)
        self.connection.close(drain=False)
