"""The session of one connection of a client of today's Kafka."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import Factory, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.kafka.describing import DESCRIBE_CLUSTER, METADATA, KafkaDescribing
from logd.broker.kafka.fetches.shared_work import FetchWork
from logd.broker.kafka.fetching import KafkaFetching
from logd.broker.kafka.groups.membership_requests import FIND_COORDINATOR, HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from logd.broker.kafka.groups.requests import KafkaGroupRequests
from logd.broker.kafka.leader_epochs import OFFSET_FOR_LEADER_EPOCH, KafkaLeaderEpochs
from logd.broker.kafka.list_offsets import LIST_OFFSETS, KafkaListingOffsets
from logd.broker.kafka.producer_ids import INIT_PRODUCER_ID, KafkaInitProducerId
from logd.broker.kafka.producing import KafkaProducing
from logd.broker.kafka.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE, KafkaSasl
from logd.broker.listening.addresses import KafkaListener
from logd.broker.requests.core import BrokerCore
from logd.broker.security.requester import Requester
from logd.broker.security.rights import Rights
from logd.checkedjson import excerpt
from logd.errors import ProtocolViolation
from logd.net.server import Connection
from logd.net.session import PauseReason
from logd.protocol.conversation.interfaces import Received
from logd.protocol.kafka.apis import API_VERSIONS, APIS, KafkaApi
from logd.protocol.kafka.conversation import ApiVersions, KafkaToken, NotServed
from logd.protocol.kafka.fetch import API_KEY as FETCH_KEY
from logd.protocol.kafka.fetch import FetchedEncoder, KafkaFetch
from logd.protocol.kafka.large_responses import KafkaJoined, ResponseEncoder, is_large
from logd.protocol.kafka.produce import KafkaProduce
from logd.protocol.requests.fields import size_of

if TYPE_CHECKING:
    from logd.broker.broker import Broker
    from logd.broker.kafka.administration.elections import KafkaElections

Handler = Callable[[Any], Coroutine[Any, Any, Any]]

#: The requests that may come before a client has authenticated.
_BEFORE_ALL = frozenset((API_VERSIONS, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key))
#: The requests of one connection that may be under way together: their answers are small, or bounded in all, and some
#: wait for messages or other clients. Each of the other ones waits for the answer to the one before, as in Kafka.
_TOGETHER = frozenset(
    (
        FETCH_KEY,
        *(each.key for each in (FIND_COORDINATOR, HEARTBEAT, INIT_PRODUCER_ID, JOIN_GROUP, SYNC_GROUP)),
    )
)


class KafkaSession:
    """See ``logd.net.session.Session``."""

    _log = Logger()
    #: The name of the protocol in metrics.
    protocol = "kafka"

    def __init__(
        self,
        broker: BrokerCore,
        connection: Connection,
        on_lost: Callable[[KafkaSession], None],
        listener: KafkaListener,
        fetches: FetchWork,
    ) -> None:
        """``on_lost(session)`` is called when the connection is lost."""
        self._broker = broker
        self._counters = broker.counters.kafka
        self._counters.connections += 1
        self._on_lost = on_lost
        self.connection = connection
        self.requester = Requester.at(connection.peer)
        self.rights = Rights(broker.authorizer, self.requester)
        self._sasl = KafkaSasl(broker, connection, self.requester, lambda: broker.quotas.authenticated(self))
        reached = listener.address_for(connection.transport, broker.advertised)
        #: Returns the address of each broker by its id, as this connection's client reaches it.
        self.addresses = partial(broker.kafka_addresses, listener.place, reached)
        self._producing = KafkaProducing(broker, connection, self.rights)
        self._fetching = KafkaFetching(broker, fetches, self.rights)
        self._describing = KafkaDescribing(broker, self.addresses, self.rights)
        self._groups = KafkaGroupRequests(broker, connection.peer, self.addresses, self.rights)
        self._elections: KafkaElections | None = None
        self._has_produced = False
        self._is_named = False
        handlers: dict[KafkaApi, Handler] = {
            METADATA: self._describing.metadata,
            DESCRIBE_CLUSTER: self._describing.describe_cluster,
            LIST_OFFSETS: KafkaListingOffsets(broker, self.rights, lambda: connection.session is None).list_offsets,
            OFFSET_FOR_LEADER_EPOCH: KafkaLeaderEpochs(broker, self.rights).offset_for_leader_epoch,
            INIT_PRODUCER_ID: KafkaInitProducerId(
                broker.idempotence.ids, connection.peer, self.rights
            ).init_producer_id,
            SASL_HANDSHAKE: self._sasl.handshake,
            SASL_AUTHENTICATE: self._sasl.authenticate,
            **self._groups.handlers,
        }
        self._kinds = _by_kind(handlers)

    def take(self, received: Sequence[Received]) -> int:
        """See ``logd.net.session.Session``."""
        taken = 0
        producing = self._producing
        left = iter(received)
        producing.native.arrived = self._broker.clock.seconds()
        if producing.native.waiting is not None and producing.native.resume():
            next(left)  # the waiting request is still the first
            taken = 1
        for unread, token in left if producing.native.waiting is None else ():
            if self._ends_turn(taken):
                break
            try:
                request = unread.read(self._is_turn_over)
            except ProtocolViolation as violation:
                self.connection.end_conversation(violation)
                break
            if request is None:
                self.connection.end_turn()
                break
            if isinstance(request, KafkaProduce):
                self._counters.asked("Produce")
                if not self._has_produced:
                    self._has_produced = self._sasl.has_begun = True
                    self._broker.gate.add(self.connection)
                if not producing.produce(request, token):
                    break
            elif isinstance(request, KafkaFetch) and self._holds_fetch(request):
                break
            else:
                producing.native.append()
                is_long = self._take(request, token)
                if token.header.api_key == SASL_AUTHENTICATE.key:
                    taken += 1
                    break  # what follows is taken once it is known who asks
                if is_long:
                    taken += 1
                    break
            taken += 1
        producing.native.append()
        if taken:
            producing.native.creations_settled()
        self._broker.counters.requests += taken
        return taken

    def lost(self) -> None:
        """See ``logd.net.session.Session``."""
        self._sasl.lost()
        self._producing.native.lost()
        self._fetching.lost()
        self._describing.native.lost()
        self._groups.lost()
        if self._elections is not None:
            self._elections.lost()
        self._on_lost(self)

    def stop(self) -> None:
        """Refuse new sets, and answer waiting fetches with the messages there are, as the broker is stopping."""
        self._producing.native.stopping = True
        self._fetching.finish()

    def rights_changed(self) -> None:
        """Look again at what waits, as access rules have changed."""
        self._fetching.rights_changed()

    def _ends_turn(self, taken: int) -> bool:
        """End the turn if it is over; return whether no more requests should be taken. One is taken in any case."""
        connection = self.connection
        if not taken or not (connection.turn_is_over or connection.has_much_to_send):
            return False
        connection.end_turn()
        return True

    def _holds_fetch(self, request: KafkaFetch) -> bool:
        """Return whether a Fetch has to wait; the connection is paused then."""
        meter = self.connection.meter
        if meter is not None and meter.holds_fetch():
            return True
        if not self._fetching.must_wait(request, self._long_request_ended):
            return False
        self.connection.pause(PauseReason.LONG_REQUEST)
        return True

    def _is_turn_over(self) -> bool:
        return self.connection.turn_is_over

    def _take(self, request: Any, token: KafkaToken) -> bool:
        """Begin to answer a request; return whether the next one has to wait for that."""
        if not self._is_named:
            self._name(token.header.client_id, request.software if isinstance(request, ApiVersions) else "")
        key = token.header.api_key
        if key not in _BEFORE_ALL:
            self._sasl.has_begun = True
        api = APIS.get(key)
        self._counters.asked("unknown" if api is None else api.name)
        if isinstance(request, NotServed | ApiVersions):
            self.connection.answer(token, request)
            return False
        answer: Deferred[Any]
        if isinstance(request, KafkaFetch):
            answer = Deferred.fromCoroutine(self._fetching.fetch(request))
        else:
            self._groups.called_by(token.header.client_id)
            answer = Deferred.fromCoroutine(self._handler(type(request).__name__)(request))
        answer.addCallback(self._answer, token, "unknown" if api is None else api.name, self._producing.native.arrived)
        answer.addErrback(self._failed)
        # An answer may name all topics, or all members of all groups, and is in memory until it is whole: one at once.
        is_long = key not in _TOGETHER and not (answer.called and not answer.paused)
        if is_long:
            self.connection.pause(PauseReason.LONG_REQUEST)
            answer.addCallback(lambda _: self._long_request_ended())
        return is_long

    def _handler(self, kind: str) -> Handler:
        """Return what answers requests of a kind; the first one of administration brings all of its handlers along."""
        if kind not in self._kinds:
            # Imported and made here, since few clients ever administer anything.
            from logd.broker.kafka.administration.elections import ELECT_LEADERS, KafkaElections
            from logd.broker.kafka.administration.handlers import administration_handlers

            self._elections = KafkaElections(self._broker, self.rights)
            self._kinds |= _by_kind(administration_handlers(self._broker, self.rights))
            self._kinds |= _by_kind({ELECT_LEADERS: self._elections.elect_leaders})
        return self._kinds[kind]

    def _answer(self, response: Any, token: KafkaToken, api: str, arrived: float) -> Deferred[None] | None:
        version = token.header.version
        if not isinstance(response, FetchedEncoder | KafkaJoined) and is_large(response, version):
            return Deferred.fromCoroutine(self._answer_in_turns(response, token, api, arrived))
        self._send(response, token, api, arrived)
        return None

    async def _answer_in_turns(self, response: Any, token: KafkaToken, api: str, arrived: float) -> None:
        encoder, turns = ResponseEncoder(response, token.header.version), self._broker.turns()
        for _ in encoder.steps():
            if turns.over:
                await turns.rest()
        self._send(encoder, token, api, arrived)

    def _send(self, response: Any, token: KafkaToken, api: str, arrived: float) -> None:
        meter = self.connection.meter
        if meter is not None:
            token.throttle_ms = meter.throttle_ms(_large_bytes(response))
        broker = self._broker
        broker.counters.latencies.of(self.protocol, api).observe(broker.clock.seconds() - arrived)
        self.connection.answer(token, response)

    def _long_request_ended(self) -> None:
        self.connection.resume(PauseReason.LONG_REQUEST)

    def _name(self, client_id: str, software: str) -> None:
        """Take the names that the client's first request tells, for log lines about its connection."""
        self._is_named = True
        names = ([f"client id {excerpt(client_id)}"] if client_id else []) + ([software] if software else [])
        self.connection.client = ", ".join(names)
        if self._counters.named(software) and software:
            self._log.info(
                "clients of {software} connect; the first is {peer}", software=software, peer=self.connection.caller
            )

    def _failed(self, failure: Failure) -> None:
        if failure.check(CancelledError):  # the connection is lost
            return
        self.connection.close(drain=False)
        self._log.failure("a request of {peer} failed; its connection is closed", failure, peer=self.connection.caller)


def _large_bytes(response: Any) -> int:
    """Return the bytes of a response; 0 for a small one."""
    if isinstance(response, FetchedEncoder):
        return sum(map(size_of, response.pieces))
    if isinstance(response, KafkaJoined):
        return sum([len(metadata) for _, _, metadata in response.members])
    return response.size if isinstance(response, ResponseEncoder) else 0


def _by_kind(handlers: Mapping[KafkaApi, Handler]) -> dict[str, Handler]:
    """Return the handlers by the names of their requests' classes."""
    return {api.name + "Request": handler for api, handler in handlers.items()}


@frozen
class KafkaSessions:
    """Opens the sessions of a listener for clients of today's Kafka."""

    _broker: Broker
    _listener: KafkaListener = field(factory=KafkaListener)
    _fetches: FetchWork = field(
        default=Factory(
            lambda self: FetchWork(self._broker.threads, self._broker.healing.suspect, self._broker.healing.may_heal),
            takes_self=True,
        )
    )

    def open_session(self, connection: Connection) -> KafkaSession | None:
        """See ``logd.net.session.SessionOpener``."""
        broker, listener, fetches = self._broker, self._listener, self._fetches
        return broker.open(lambda on_lost: KafkaSession(broker, connection, on_lost, listener, fetches))
