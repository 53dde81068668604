"""Tests of logd.client.settings and setting_names."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.client.setting_names import read_settings
from logd.client.settings import ConsumerSettings, LinkSettings, ProducerSettings
from logd.errors import ConfigurationError


class SettingsTests(SynchronousTestCase):
    """The settings classes."""

    def test_every_default_passes_its_own_check(self) -> None:
        """A default that is refused would make a client unusable without settings."""
        for cls in (ConsumerSettings, LinkSettings, ProducerSettings):
            cls()

    def test_refusals_name_setting_value_and_what_is_allowed(self) -> None:
        """The text has all that is needed to correct the value, for each kind of setting."""
        for cls, name, value, allowed in (
            (ProducerSettings, "acks", -2, "a whole number from -1 to 32767"),
            (ProducerSettings, "acks", True, "a whole number"),
            (ProducerSettings, "compression", "lzma", "'none', 'gzip', 'snappy', 'lz4', 'zstd'"),
            (ProducerSettings, "linger", "1", "a number of seconds from 0"),
            (LinkSettings, "discover", 1, "True or False"),
            (ConsumerSettings, "on_corrupt", "ignore", "'fail', 'skip'"),
            (ConsumerSettings, "fetch_bytes", 1, "a whole number of bytes from 64"),
        ):
            with self.subTest(name=name, value=value):
                given: dict[str, Any] = {name: value}
                text = str(self.assertRaises(ConfigurationError, cls, **given))
                self.assertIn(f"{name} = {value!r} is not allowed; allowed is", text)
                self.assertIn(allowed, text)


class ReadSettingsTests(SynchronousTestCase):
    """``read_settings``."""

    def test_each_settings_object_gets_its_own_names(self) -> None:
        """A client takes all settings as keywords; producers, consumers and links each have some of them."""
        mine, links = read_settings({"acks": 1, "discover": False}, ProducerSettings, LinkSettings)
        self.assertEqual((mine.acks, links.discover), (1, False))

    def test_an_unknown_name_is_refused_with_a_suggestion(self) -> None:
        """A misspelt setting that was ignored would leave the default in force unseen."""
        text = str(self.assertRaises(ConfigurationError, read_settings, {"lingr": 1}, ProducerSettings))
        self.assertIn("did you mean 'linger'?", text)
