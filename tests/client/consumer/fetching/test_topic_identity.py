"""Tests of logd.client.consumer.fetching.topic_identity: the topic that positions belong to."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.fetching.topic_identity import TopicIdentity


class TopicIdentityTests(SynchronousTestCase):
    """Identities with and without a uuid from the caller."""

    def test_first_uuid_is_taken(self) -> None:
        """Without a uuid from the caller, the first one seen is that of the topic, and another one is not."""
        identity = TopicIdentity.given(None)
        self.assertEqual((identity.matches("a"), identity.uuid, identity.fixed), (True, "a", False))
        self.assertEqual((identity.matches("b"), identity.uuid), (False, "a"))

    def test_given_uuid_is_fixed(self) -> None:
        """The uuid that the caller names is not replaced by the one of the metadata."""
        identity = TopicIdentity.given("a")
        self.assertEqual((identity.matches("b"), identity.uuid, identity.fixed), (False, "a", True))
        self.assertTrue(identity.matches("a"))
