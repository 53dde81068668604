"""Tests that a broker has a handler for each request of the table."""

from __future__ import annotations

from logd.broker.requests.session import BrokerSession
from logd.protocol.requests.apis import LEGACY_APIS, NATIVE_APIS
from logd.protocol.requests.authenticate import Authenticate
from logd.protocol.requests.legacy_requests import MultiProduce, Produce
from logd.protocol.requests.produce_ack import ProduceAck
from logd.protocol.requests.replica_fetch import ReplicaProgress
from logd.protocol.requests.requests import Unsupported
from tests.broker.rig import BrokerTestCase


class HandlerTests(BrokerTestCase):
    """The handlers of a connection."""

    def test_every_request_has_a_handler(self) -> None:
        """Those that produce are the exception, as they are gathered; Authenticate, for which all others wait; and
        ReplicaProgress, which has no answer."""
        session = self.connect().connection.session
        assert isinstance(session, BrokerSession)
        known = {api.request for api in (*LEGACY_APIS, *NATIVE_APIS)}
        self.assertEqual(
            set(session.handlers),
            known - {Produce, MultiProduce, ProduceAck, Authenticate, ReplicaProgress} | {Unsupported},
        )
