"""Tests that docs/clients.md names what there is."""

from __future__ import annotations

from pathlib import Path

import attrs
from twisted.trial.unittest import SynchronousTestCase

from logd.client.settings import ConsumerSettings, LinkSettings, ProducerSettings

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "clients.md"


class ClientsPageTests(SynchronousTestCase):
    """docs/clients.md against the settings classes."""

    def test_every_client_setting_stands_on_the_page(self) -> None:
        """A setting that is not documented can only be found by reading the source."""
        text = PAGE.read_text(encoding="utf-8")
        missing = [
            field.name
            for settings in (ProducerSettings, ConsumerSettings, LinkSettings)
            for field in attrs.fields(settings)
            if f"`{field.name}`" not in text
        ]
        self.assertEqual(missing, [])
