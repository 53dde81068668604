"""Tests of SASL on the listener for clients of today's Kafka."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from twisted.internet.defer import Deferred

from logd.broker.security.authentication import FAILURE_SECONDS
from logd.config.security import SecuritySettings
from logd.coord.registries.users import add_user, remove_user
from logd.net.server import Connection
from logd.security.quotas import Quota
from logd.security.scram import MECHANISMS, REFUSAL, ClientExchange
from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase
from tests.broker.security.test_native_authentication import ANN

FAILED, UNSUPPORTED, ILLEGAL = 58, 33, 34


class KafkaAuthenticationTests(KafkaTestCase):
    """A broker with the user ``ann``."""

    options = {"security": SecuritySettings(security_required=True, security_superusers="ann")}  # noqa: RUF012

    def setUp(self) -> None:
        """Add the user."""
        super().setUp()
        self.change(add_user, "ann", ANN)

    def change(self, change: Any, *details: Any) -> None:
        """Change users in the tree, and let the broker see that."""
        changing = Deferred.fromCoroutine(change(self.access.client, *details))
        self.settle()
        self.successResultOf(changing)

    def begin(self, mechanism: str) -> KafkaPeer:
        """Connect, and choose a mechanism."""
        peer = self.kafka()
        answer = self.ask(peer, SaslHandshakeRequest[1](mechanism=mechanism))
        self.assertEqual(answer.error_code, 0)
        return peer

    def step(self, peer: KafkaPeer, data: bytes) -> Any:
        """Send one message; return the answer, which comes after a second if it is a refusal."""
        peer.send(SaslAuthenticateRequest[1](auth_bytes=data))
        self.settle()
        answers = peer.answers()
        if not answers:
            self.clock.advance(FAILURE_SECONDS - 0.001)
            self.settle()
            self.assertEqual(peer.answers(), [])
            self.clock.advance(0.001)
            self.settle()
            answers = peer.answers()
        (answer,) = answers
        return answer

    def scram(self, mechanism: str, user: str, password: str) -> tuple[KafkaPeer, Any]:
        """Run a whole exchange."""
        peer, exchange = self.begin(mechanism), ClientExchange(mechanism, user, password)
        answer = self.step(peer, exchange.first())
        if not answer.error_code:
            answer = self.step(peer, exchange.answer(answer.auth_bytes))
        if not answer.error_code:
            exchange.check(answer.auth_bytes)
        return peer, answer

    def test_scram(self) -> None:
        """By both mechanisms; what follows is the user's."""
        for mechanism in MECHANISMS:
            peer, answer = self.scram(mechanism, "ann", "secret")
            self.assertEqual((answer.error_code, answer.session_lifetime_ms), (0, 0))
            session = list(self.broker.sessions)[-1]
            self.assertEqual((session.requester.principal, session.requester.mechanism), ("ann", mechanism))
            self.assertEqual(self.ask(peer, MetadataRequest[8](topics=[])).topics, [])

    def test_sasl_of_before_kafka_1_0_is_offered_and_refused(self) -> None:
        """librdkafka of Debian 12 looks whether it is offered, and uses the other one; who uses it is cut off."""
        versions = self.ask(self.kafka(), ApiVersionsRequest[0]())
        (offered,) = [api for api in versions.api_keys if api.api_key == 17]
        self.assertEqual((offered.min_version, offered.max_version), (0, 1))
        peer = self.kafka()
        self.assertEqual(self.ask(peer, SaslHandshakeRequest[0](mechanism=MECHANISMS[0])).error_code, 35)
        peer.pump()
        self.assertTrue(peer.lost)

    def test_unknown_users_and_wrong_passwords(self) -> None:
        """The same answer after the same time, and the connection is closed."""
        for user, password in (("ann", "wrong"), ("bob", "secret"), ("logd-broker", "x")):
            peer, answer = self.scram(MECHANISMS[0], user, password)
            self.assertEqual((answer.error_code, answer.error_message), (FAILED, REFUSAL))
            peer.pump()
            self.assertTrue(peer.lost)

    def test_plain_is_offered_inside_tls_alone(self) -> None:
        """Outside, a client that insists is refused with what there is."""
        answer = self.ask(self.kafka(), SaslHandshakeRequest[1](mechanism="PLAIN"))
        self.assertEqual((answer.error_code, answer.mechanisms), (UNSUPPORTED, list(MECHANISMS)))
        self.patch(Connection, "encrypted", True)
        self.assertEqual(self.step(self.begin("PLAIN"), b"\0ann\0secret").error_code, 0)
        self.assertEqual(self.step(self.begin("PLAIN"), b"\0ann\0wrong").error_code, FAILED)

    def test_the_order_of_requests(self) -> None:
        """A message without a mechanism, and authentication after other requests, are refused."""
        answer = self.step(self.kafka(), b"n,,n=ann,r=x")
        self.assertEqual(answer.error_code, ILLEGAL)
        peer = self.kafka()
        self.ask(peer, MetadataRequest[8](topics=[]))
        self.assertEqual(self.ask(peer, SaslHandshakeRequest[1](mechanism=MECHANISMS[0])).error_code, ILLEGAL)
        peer, _ = self.scram(MECHANISMS[0], "ann", "secret")
        self.assertEqual(self.ask(peer, SaslHandshakeRequest[1](mechanism=MECHANISMS[0])).error_code, ILLEGAL)

    def test_requests_behind_a_failure_are_not_taken(self) -> None:
        """They are dropped with the connection."""
        peer = self.begin(MECHANISMS[0])
        peer.send(SaslAuthenticateRequest[1](auth_bytes=b"nonsense"), MetadataRequest[8](topics=[]))
        self.settle()
        self.clock.advance(FAILURE_SECONDS)
        self.settle()
        self.assertEqual([type(each).__name__ for each in peer.answers()], ["SaslAuthenticateResponse"])

    def test_a_lost_connection_leaves_no_timer(self) -> None:
        """In the delay of a failure."""
        peer = self.begin(MECHANISMS[0])
        peer.send(SaslAuthenticateRequest[1](auth_bytes=b"nonsense"))
        self.settle()
        peer.lose()
        self.assertEqual(self.timers(), [])

    def test_a_client_that_leaves_while_its_password_is_checked_uses_nothing(self) -> None:
        """Its connection would count against the user's quota for ever."""
        self.patch(Connection, "encrypted", True)
        self.broker.take_quotas({"ann": Quota(connections=1)})
        peer = self.begin("PLAIN")
        peer.send(SaslAuthenticateRequest[1](auth_bytes=b"\0ann\0secret"))
        self.assertEqual(len(self.reads.works), 1)
        peer.lose()
        self.settle()
        answer = self.step(self.begin("PLAIN"), b"\0ann\0secret")
        self.assertEqual((answer.error_code, answer.error_message), (0, None))
        self.assertEqual(self.broker.authentication.attempts, {("PLAIN", True): 1})

    def test_one_password_is_hashed_at_a_time_also_when_clients_leave(self) -> None:
        """Else strangers who connect and leave could fill the threads that read the disks."""
        self.patch(Connection, "encrypted", True)
        peers = [self.begin("PLAIN") for _ in range(4)]
        for peer in peers:
            peer.send(SaslAuthenticateRequest[1](auth_bytes=b"\0ann\0wrong"))
        for peer in peers[:-1]:
            peer.lose()
            self.assertEqual(len(self.reads.works), 1)
        self.settle()
        self.clock.advance(FAILURE_SECONDS)
        self.settle()
        self.assertEqual([answer.error_code for answer in peers[-1].answers()], [FAILED])
        self.assertEqual(self.step(self.begin("PLAIN"), b"\0ann\0secret").error_code, 0)

    def test_a_thread_that_cannot_start_holds_up_no_later_check(self) -> None:
        """The password after it is checked as ever."""
        self.patch(Connection, "encrypted", True)
        run = self.patch(type(self.broker.authentication._threads), "run", Mock(side_effect=RuntimeError("no thread")))
        self.begin("PLAIN").send(SaslAuthenticateRequest[1](auth_bytes=b"\0ann\0secret"))
        self.settle()
        run.restore()
        self.flushLoggedErrors(RuntimeError)
        self.assertEqual(self.step(self.begin("PLAIN"), b"\0ann\0secret").error_code, 0)

    def test_a_removed_user_is_cut_off(self) -> None:
        """At once."""
        peer, _ = self.scram(MECHANISMS[0], "ann", "secret")
        self.change(add_user, "bob", ANN)
        self.assertFalse(peer.transport.disconnecting or peer.lost)
        self.change(remove_user, "ann")
        self.assertTrue(peer.transport.disconnecting or peer.lost)
