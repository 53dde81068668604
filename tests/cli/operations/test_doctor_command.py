"""Tests of logd.cli.operations.doctor: the clients by which it asks the tree."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.operations.doctor import stranger_settings
from logd.cli.tree_session import tree_settings
from logd.config import ZooKeeperSecurity


class TreeClientTests(SynchronousTestCase):
    """The settings of the clients."""

    def security(self) -> ZooKeeperSecurity:
        """Return settings with TLS and credentials."""
        folder = Path(self.mktemp())
        folder.mkdir()
        for name in ("ca.pem", "own.pem", "own.key"):
            (folder / name).touch()
        return ZooKeeperSecurity(
            zookeeper_tls_enabled=True,
            zookeeper_tls_authorities=str(folder / "ca.pem"),
            zookeeper_tls_certificate=str(folder / "own.pem"),
            zookeeper_tls_key=str(folder / "own.key"),
            zookeeper_digest_credentials="logd:secret",
        )

    def test_the_settings_of_the_broker_are_used(self) -> None:
        """Without its TLS a tree would seem to be away, and without its credentials much of it would be hidden."""
        security = self.security()
        found = tree_settings("h:2182", 3.0, security)
        assert found.tls is not None
        self.assertEqual(
            (found.tls.authorities, found.tls.key), (security.zookeeper_tls_authorities, security.zookeeper_tls_key)
        )
        self.assertEqual((found.digests, found.connect_timeout), (("logd:secret",), 3.0))

    def test_a_stranger_comes_the_same_way_and_proves_nothing(self) -> None:
        """Else nobody would notice that a tree with TLS is open to all."""
        security = self.security()
        found = stranger_settings(tree_settings("h:2182", 3.0, security))
        assert found.tls is not None
        self.assertEqual((found.tls.certificate, found.tls.key, found.digests), (None, None, ()))
