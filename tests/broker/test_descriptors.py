"""Tests of logd.broker.descriptors: the number of files that a broker keeps open."""

from __future__ import annotations

import resource

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.descriptors import DescriptorLimits, raise_limit, share_out


class ShareOutTests(SynchronousTestCase):
    """The limit of the process, divided between connections, reading and writing."""

    def share_out(self, limit: int, connections: int) -> tuple[DescriptorLimits, int]:
        """Return the shares and the number of warnings."""
        warnings: list[str] = []
        found = share_out(limit, connections, lambda text, **fields: warnings.append(text.format(**fields)))
        if warnings:
            self.assertIn(f"{connections + 256} or more", warnings[0])
        return found, len(warnings)

    def test_connections_come_before_files(self) -> None:
        """A quarter of the rest is for reading, both within bounds; a limit that is too low is warned of."""
        self.assertEqual(self.share_out(1 << 20, 10_000), (DescriptorLimits(512, 10_000), 0))
        self.assertEqual(self.share_out(12_000, 10_000), (DescriptorLimits(468, 1404), 0))
        self.assertEqual(self.share_out(10_256, 10_000), (DescriptorLimits(32, 96), 0))
        self.assertEqual(self.share_out(10_255, 10_000), (DescriptorLimits(32, 96), 1))
        self.assertEqual(self.share_out(1024, 10_000), (DescriptorLimits(32, 96), 1))


class RaiseLimitTests(SynchronousTestCase):
    """The limit of the process itself."""

    def test_the_soft_limit_rises_to_the_hard_one(self) -> None:
        """The default soft limit of 1024 would be too low for a broker."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
        limit = raise_limit()
        self.assertEqual(resource.getrlimit(resource.RLIMIT_NOFILE), (hard, hard))
        self.assertEqual(limit, 1 << 30 if hard == resource.RLIM_INFINITY else hard)
