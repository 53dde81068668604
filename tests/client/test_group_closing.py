"""Tests of how a consumer of a group ends."""

from __future__ import annotations

from tests.client.groups import Application, ClientGroupCase


class ClosingTests(ClientGroupCase):
    """``Consumer.close``."""

    def test_twice(self) -> None:
        """Who closes it again while it is leaving waits for that, and does not cut it short."""
        app = Application(self).read(30)
        self.run_for(1.0)
        app.coordination.link.delay = lambda: 0.1
        first, second = app.consumer.close(), app.consumer.close()
        self.run_for(0.1)
        self.assertNoResult(first)
        self.assertNoResult(second)
        self.run_for(2.0)
        self.successResultOf(first)
        self.successResultOf(second)
        self.successResultOf(app.consumer.close())
