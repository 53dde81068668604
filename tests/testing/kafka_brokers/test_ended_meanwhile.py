"""Tests of logd.testing.kafka_brokers.broker: calls of a broker that another thread closes meanwhile."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import LogdError
from logd.testing.kafka_brokers.broker import KafkaBroker


class GoingBroker(KafkaBroker):
    """A broker that is closed when a call has seen that it runs, as another thread may do."""

    @property
    def native_address(self) -> tuple[str, int]:
        """See KafkaBroker."""
        address = super().native_address
        self.close()
        return address


class EndedMeanwhileTests(SynchronousTestCase):
    """Calls that come too late for the broker's thread."""

    def test_a_call_that_comes_too_late_says_that_the_broker_is_down(self) -> None:
        """It names the broker, as a call does that was begun before."""
        broker = GoingBroker()
        broker._native = ("127.0.0.1", 1)
        error = self.assertRaises(LogdError, broker.topics)
        self.assertEqual(str(error), f"the broker of {broker.bootstrap_servers} was stopped in the meantime")
