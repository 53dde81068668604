"""Attacks on every request of every protocol: behind a failed, a half, and a replayed authentication, and as nobody.

The requests come from the tables of the tests of rights, which have every request of the protocols' own tables.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from twisted.internet.defer import Deferred

from logd.broker.security.authentication import FAILURE_SECONDS
from logd.config.legacy import LegacySettings
from logd.config.security import SecuritySettings
from logd.coord.registries.access_rules import add_rule
from logd.coord.registries.users import add_user
from logd.protocol.requests.apis import LEGACY_APIS
from logd.protocol.requests.authenticate import Authenticate
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.security.access_rules import AccessRule, Effect, Operation, ResourceType
from logd.security.scram import MECHANISMS, ClientExchange
from tests.broker.kafka.rig import KafkaTestCase
from tests.broker.rig import BrokerTestCase, Peer
from tests.broker.security.test_kafka_rights import _needs as kafka_needs
from tests.broker.security.test_native_authentication import ANN
from tests.broker.security.test_native_rights import HELLO, NEEDS, change_rule
from tests.net.doubles import PeerTransport

MECHANISM = MECHANISMS[0]
WRONG = Authenticate(MECHANISM, b"n,,n=ann")
LEGACY = {api.request for api in LEGACY_APIS}


class NativeAttackTests(BrokerTestCase):
    """A broker with the superuser ``ann`` and no rules: nobody else may do anything."""

    options = {"security": SecuritySettings(security_superusers="ann")}  # noqa: RUF012

    def setUp(self) -> None:
        """Make a topic, and then the user, from whom on rights are demanded."""
        super().setUp()
        self.create("t")
        adding = Deferred.fromCoroutine(add_user(self.access.client, "ann", ANN))
        self.settle()
        self.successResultOf(adding)
        self.before = self.state()

    def state(self) -> tuple[Any, ...]:
        """Return what an attack must not change."""
        return self.content("t"), len(self.store.logs()), self.broker.topics.get("t")

    def check(self, peer: Peer, allowed: int, what: object) -> None:
        """Check that the peer was answered ``allowed`` times at most, was cut off, and has changed nothing."""
        self.clock.advance(FAILURE_SECONDS)
        self.settle()
        self.assertLessEqual(len(peer.answers()), allowed, what)
        peer.pump()
        self.assertTrue(peer.lost, what)
        self.assertEqual(self.state(), self.before, what)

    def test_no_request_is_taken_behind_a_failed_authentication(self) -> None:
        """Sent with it, or while its answer is awaited."""
        for need in NEEDS:
            peer = self.connect()
            peer.send(WRONG, need.request)
            self.check(peer, 1, need)
            peer = self.connect()
            peer.send(WRONG)
            self.settle()
            peer.send(need.request)
            self.check(peer, 1, need)

    def test_a_request_behind_half_an_authentication_is_nobodys(self) -> None:
        """It is refused for want of rights, and then the authentication cannot be finished."""
        for need in NEEDS:
            exchange, peer = ClientExchange(MECHANISM, "ann", "secret"), self.connect()
            challenge = self.ask(peer, Authenticate(MECHANISM, exchange.first()))
            if need.error is None:
                peer.send(need.request)
                self.settle()
            else:
                self.assertEqual(need.error(self.ask(peer, need.request)), need.refused, need)
            answer = self.ask(peer, Authenticate(MECHANISM, exchange.answer(challenge.data)))
            self.assertEqual(answer.error, 113, need)
            self.assertEqual(self.state(), self.before, need)

    def test_a_replayed_authentication_lets_no_request_through(self) -> None:
        """The bytes of a whole session, recorded, and sent again."""
        exchange, peer = ClientExchange(MECHANISM, "ann", "secret"), self.connect()
        first = Authenticate(MECHANISM, exchange.first())
        proof = Authenticate(MECHANISM, exchange.answer(self.ask(peer, first).data))
        self.assertTrue(self.ask(peer, proof).done)
        for need in NEEDS:
            again = self.connect()
            again.send(first, proof, need.request)
            self.check(again, 2, need)

    def test_requests_of_kafka_0_7_are_nobodys_beside_it(self) -> None:
        """Those have no authentication, and no rights but those that rules give to everybody."""
        found = {type(need.request) for need in NEEDS} & LEGACY
        self.assertEqual(found, LEGACY)
        change_rule(self, add_rule, AccessRule("ann", Effect.ALLOW, Operation.ALL, ResourceType.TOPIC, "t"))
        peer = self.connect()
        peer.send(Produce("t", 0, HELLO))
        self.assertEqual(self.ask(peer, Fetch("t", 0, 0, 100)).error, -1)
        self.assertEqual(self.state(), self.before)


class LegacyPrincipalTests(BrokerTestCase):
    """The listener for clients of 0.7 with ``legacy.principal``."""

    options = {  # noqa: RUF012
        "security": SecuritySettings(security_required=True),
        "legacy": LegacySettings(legacy_registry="/old", legacy_listen="tcp:0", legacy_principal="old"),
    }

    def test_its_connections_are_that_user(self) -> None:
        """With its rights, and no others; those of the native listener stay nobody's."""
        self.create("t", message_format="0.7")
        connection = self.ports["legacy.listen", 0].buildProtocol(None)
        peer = Peer(connection, PeerTransport(host="10.0.0.9"))
        self.peers.append(peer)
        connection.makeConnection(peer.transport)
        self.assertEqual(self.ask(peer, Fetch("t", 0, 0, 100)).error, -1)
        change_rule(self, add_rule, AccessRule("old", Effect.ALLOW, Operation.READ, ResourceType.TOPIC, "t"))
        self.assertEqual(self.ask(peer, Fetch("t", 0, 0, 100)).error, 0)
        self.assertEqual(self.ask(self.connect(), Fetch("t", 0, 0, 100)).error, -1)


class KafkaAttackTests(KafkaTestCase):
    """The same of today's Kafka."""

    options = {"security": SecuritySettings(security_superusers="ann")}  # noqa: RUF012

    def setUp(self) -> None:
        """Make a topic, and then the user."""
        super().setUp()
        self.create("t")
        adding = Deferred.fromCoroutine(add_user(self.access.client, "ann", ANN))
        self.settle()
        self.successResultOf(adding)

    def test_no_request_is_taken_behind_a_failed_authentication(self) -> None:
        """Each API of the table, sent with it."""
        before = self.content("t"), self.broker.topics.get("t")
        for need in kafka_needs():
            peer = self.kafka()
            wrong = SaslAuthenticateRequest[1](auth_bytes=b"nonsense")
            peer.send(SaslHandshakeRequest[1](mechanism=MECHANISM), wrong, need.request)
            self.settle()
            self.clock.advance(FAILURE_SECONDS)
            self.settle()
            self.assertEqual(len(peer.answers()), 2, need)
            peer.pump()
            self.assertTrue(peer.lost, need)
            self.assertEqual((self.content("t"), self.broker.topics.get("t")), before, need)

    def test_no_request_is_taken_without_the_mechanism_that_was_agreed(self) -> None:
        """PLAIN outside TLS, and a message before any handshake, end the connection."""
        for need in kafka_needs():
            peer = self.kafka()
            plain = SaslAuthenticateRequest[1](auth_bytes=b"\0ann\0secret")
            peer.send(SaslHandshakeRequest[1](mechanism="PLAIN"), plain, need.request)
            self.settle()
            answers = peer.answers()
            self.assertEqual([each.error_code for each in answers], [33, 34], need)
            peer.pump()
            self.assertTrue(peer.lost, need)
