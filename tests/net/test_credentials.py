"""Tests of finding a user and a password: in settings, in files, and in the environment."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.client.setting_names import read_settings
from logd.client.settings import LinkSettings
from logd.errors import ConfigurationError
from logd.net.credentials import credentials_of_environment, find_credentials, read_password
from logd.security.credentials import Credentials


class FindingTests(SynchronousTestCase):
    """Credentials that a client is given, and those that it finds."""

    def file(self, content: bytes) -> str:
        """Return the path of a file."""
        path = Path(self.mktemp())
        path.write_bytes(content)
        return str(path)

    def found(
        self, user: str | None = None, password: str | None = None, file: str | None = None, **environment: str
    ) -> Credentials | None:
        """Return whom a client with these settings and this environment connects as."""
        find = find_credentials(user, password, file, environment)
        return None if find is None else find()

    def test_settings_come_before_the_environment(self) -> None:
        """An empty user is nobody."""
        self.assertIsNone(self.found())
        self.assertEqual(self.found("ann", "x"), Credentials("ann", "x"))
        self.assertEqual(self.found(LOGD_USER="ann", LOGD_PASSWORD="x"), Credentials("ann", "x"))
        self.assertEqual(self.found("bob", LOGD_USER="ann", LOGD_PASSWORD="x"), Credentials("bob", "x"))
        self.assertEqual(self.found("ann", "y", LOGD_PASSWORD_FILE="none"), Credentials("ann", "y"))
        self.assertIsNone(self.found("", LOGD_USER="ann", LOGD_PASSWORD="x"))
        environment = {"LOGD_REGISTRY_USER": "bob", "LOGD_REGISTRY_PASSWORD": "z", "LOGD_USER": "ann"}
        self.assertEqual(credentials_of_environment("LOGD_REGISTRY_", environment), Credentials("bob", "z"))

    def test_a_file_is_read_again_for_each_connection(self) -> None:
        """So that a program goes on when its password is changed."""
        path = self.file(b"first\n")
        find = find_credentials("ann", None, path, {})
        assert find is not None
        self.assertEqual(find(), Credentials("ann", "first"))
        Path(path).write_text("second")
        self.assertEqual(find(), Credentials("ann", "second"))

    def test_a_user_needs_one_password(self) -> None:
        """None, or two, or a password without a user, are errors."""
        for user, password, file in (("ann", None, None), ("ann", "x", "file"), (None, "x", None), ("", "x", None)):
            with self.assertRaises(ConfigurationError):
                self.found(user, password, file)
        with self.assertRaises(ConfigurationError):
            self.found(LOGD_USER="ann", LOGD_PASSWORD="x", LOGD_PASSWORD_FILE="f")

    def test_files_that_hold_no_password(self) -> None:
        """The error names the file, and shows nothing of it."""
        for content in (b"", b"two\nlines\n", b"\xff\xfe", b"x" * 5000, b"nul\0"):
            path = self.file(content)
            with self.assertRaises(ConfigurationError) as caught:
                read_password(path)
            self.assertNotIn("two", str(caught.exception))
        with self.assertRaises(ConfigurationError) as caught:
            read_password("/none/such")
        self.assertIn("/none/such cannot be read: No such file", str(caught.exception))
        self.assertEqual(read_password(self.file("pässword\r\n".encode())), "pässword")

    def test_nothing_shows_a_password(self) -> None:
        """Neither the settings' repr, nor the error about a setting that is misspelt or no text."""
        self.assertNotIn("hidden", repr(LinkSettings(user="ann", password="hidden")))
        self.assertNotIn("hidden", repr(Credentials("ann", "hidden")))
        for settings in ({"pasword": "hidden"}, {"pass_word": "hidden"}, {"password": b"hidden"}):
            with self.assertRaises(ConfigurationError) as caught:
                read_settings(dict(settings), LinkSettings)
            self.assertNotIn("hidden", str(caught.exception))
