"""Tests of the division of open files between connections, pages and segments."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.descriptors import LEAST_FOR_SEGMENTS, RESERVED, share_out


class DescriptorTests(SynchronousTestCase):
    """A limit of some thousands."""

    def test_connections_and_pages_leave_the_rest_to_segments(self) -> None:
        """A limit that leaves too little is warned of, with the one that is needed."""
        warned: list[Any] = []

        def warn(text: str, **values: Any) -> None:
            warned.append(values["needed"])

        found = share_out(2000, 1000, warn, 500)
        self.assertEqual(found.readers + found.writers, 2000 - 1000 - 500 - RESERVED)
        self.assertEqual(warned, [])
        share_out(1700, 1000, warn, 500)
        self.assertEqual(warned, [1500 + RESERVED + LEAST_FOR_SEGMENTS])
