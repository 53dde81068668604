"""Tests of users as they are kept."""

from __future__ import annotations

import json

from kazoo.security import make_digest_acl_credential
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.registries.users import decode_user
from logd.errors import ConfigurationError
from logd.security.scram import MECHANISMS, prepared
from logd.security.users import User, check_password, check_user_name, zookeeper_digest


def random(size: int) -> bytes:
    """Return bytes that are not random."""
    return bytes(range(size))


class UserTests(SynchronousTestCase):
    """A user."""

    def test_it_is_made_of_a_password_which_is_not_kept(self) -> None:
        """Its node has a verifier for each mechanism, and survives being read."""
        user = User.of("ann", "the password", random)
        content = user.to_json()
        self.assertNotIn(b"the password", content)
        self.assertEqual(decode_user("ann", content), user)
        for mechanism in MECHANISMS:
            self.assertTrue(user.verifiers[mechanism].matches(mechanism, "the password"))

    def test_the_digest_is_zookeepers(self) -> None:
        """As kazoo makes it."""
        self.assertEqual(zookeeper_digest("ann", "pässword"), make_digest_acl_credential("ann", "pässword"))

    def test_a_node_that_is_no_user_raises_value_error_alone(self) -> None:
        """Its text shows nothing of the node."""
        good = json.loads(User.of("ann", "x", random).to_json())
        for bad in (b"", b"{}", b"[]", b"\xff", json.dumps({**good, "scram-sha-256": 1}).encode()):
            with self.assertRaises(ValueError) as caught:
                decode_user("ann", bad)
            self.assertNotIn(good["digest"], str(caught.exception))
        with self.assertRaises(ValueError):
            decode_user("logd-broker", User.of("ann", "x", random).to_json())

    def test_names_and_passwords_of_which_no_client_can_send_another_form(self) -> None:
        """A letter and its accent, or a wide letter, are not sent so; a user of that name could not be proved."""
        self.assertEqual(prepared("jos\u00e9"), "jos\u00e9")
        User.of("jos\u00e9", "p\u00e4ss", random)
        for name, told in (("jose\u0301", "'jos\u00e9'"), ("\uff41lice", "'alice'"), ("\U0001f600", "SCRAM")):
            with self.assertRaises(ConfigurationError) as caught:
                User.of(name, "x", random)
            self.assertIn(told, str(caught.exception))
        with self.assertRaises(ConfigurationError) as caught:
            User.of("ann", "\U0001f600\U0001f600", random)
        self.assertNotIn("\U0001f600", str(caught.exception))
        self.assertTrue(
            User.of("ann", "pa\u0308ss", random).verifiers[MECHANISMS[0]].matches(MECHANISMS[0], "p\u00e4ss")
        )

    def test_a_node_of_such_a_name_is_still_a_user(self) -> None:
        """It was added by an earlier release, and may log in to pages."""
        content = User.of("ann", "x", random).to_json()
        self.assertEqual(decode_user("jose\u0301", content), decode_user("ann", content))

    def test_names_and_passwords_that_are_not_allowed(self) -> None:
        """Nothing shows a password."""
        for name in ("", "anonymous", "logd-broker", "a/b", "a b", "*", "a:b", ".", "x" * 201, "a\n"):
            with self.assertRaises(ConfigurationError):
                check_user_name(name)
        for password in ("", "x" * 257, "two\nlines", "nul\0"):
            with self.assertRaises(ConfigurationError) as caught:
                check_password(password)
            if password:
                self.assertNotIn(password, str(caught.exception))
