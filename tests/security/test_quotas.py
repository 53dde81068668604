"""Tests of the records of quotas."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.checkedjson import load_json
from logd.errors import ConfigurationError
from logd.security.quotas import NO_QUOTA, Quota, check_owner, quota_of


class QuotaTests(SynchronousTestCase):
    """A quota, its limits, and its node."""

    def test_the_node_says_what_is_limited_and_nothing_else(self) -> None:
        """The written node is read again; a name of a later release is passed over."""
        quota = Quota(bytes_in=5000, topics=0)
        self.assertEqual(quota.to_json(), b'{"bytes.in": 5000, "topics": 0}')
        self.assertEqual(Quota.from_json(load_json(quota.to_json())), quota)
        self.assertEqual(Quota.from_json({"bytes.in": 5000, "topics": 0, "tea": 1}), quota)

    def test_values_that_make_no_sense_are_refused(self) -> None:
        """The error names the limit, the value and what is allowed."""
        for fields in ({"bytes_in": 999}, {"requests": 0}, {"topics": -1}, {"bytes_out": 1 << 60}, {"topics": True}):
            self.assertRaises(ConfigurationError, Quota, **fields)
        error = self.assertRaises(ConfigurationError, Quota.from_json, {"bytes.in": "much"})
        self.assertIn("bytes.in = 'much' is not allowed", str(error))

    def test_a_user_without_a_limit_of_its_own_has_that_of_all(self) -> None:
        """Each limit by itself."""
        quotas = {"*": Quota(bytes_in=1000, requests=5), "alice": Quota(bytes_in=9000, topics=3)}
        self.assertEqual(quota_of("alice", quotas), Quota(bytes_in=9000, requests=5, topics=3))
        self.assertEqual(quota_of("bob", quotas), quotas["*"])
        self.assertEqual(quota_of("bob", {}), NO_QUOTA)

    def test_only_users_have_quotas(self) -> None:
        """And the anonymous, and everybody else together."""
        for name in ("alice", "anonymous", "*"):
            self.assertEqual(check_owner(name), name)
        for name in ("a/b", "logd-broker", ""):
            self.assertRaises(ConfigurationError, check_owner, name)
