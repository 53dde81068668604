"""Tests of the options of ``logd broker``."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.cluster.broker import broker
from logd.config.sources import ROWS


class BrokerCommandTests(SynchronousTestCase):
    """The command beside ``twistd logd``, of which it has all options."""

    def test_every_setting_with_an_option_has_it(self) -> None:
        """Also those of security: the command's refusal to start names one of them."""
        taken = {option for each in broker.params for option in each.opts}
        self.assertLessEqual({f"--{row.option}" for row in ROWS.values() if row.option}, taken)
        self.assertIn("--open-to-network", taken)
