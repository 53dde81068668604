"""Tests of logd.config.sources: files and command lines."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.config import Source, broker_settings, parse_assignments, read_toml
from logd.errors import ConfigurationError

DATA = Source("", {"data": "d"})


class SourcesTests(SynchronousTestCase):
    """Files and command lines."""

    def toml(self, text: str) -> str:
        """Write a settings file and return its path."""
        path = Path(self.mktemp())
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_dotted_keys_and_tables_are_the_same(self) -> None:
        """Each value arrives in its place in both forms."""
        for text in (
            'data = "x"\nretention.check.ms = 7\nretention.ms = 8\ntopics.create = false',
            'data = "x"\n[retention]\nms = 8\ncheck = {ms = 7}\n[topics]\ncreate = false',
        ):
            settings = broker_settings(read_toml(self.toml(text)))
            self.assertEqual((settings.data, settings.retention_check_ms, settings.log.retention_ms), ("x", 7, 8))
            self.assertFalse(settings.topics_create)

    def test_a_file_that_is_no_toml_is_named(self) -> None:
        """A missing file and one that is no text are named, too, with what is wrong."""
        bad = self.toml("data = ")
        with self.assertRaisesRegex(ConfigurationError, f"{bad}' is not TOML: Invalid value"):
            read_toml(bad)
        with self.assertRaisesRegex(ConfigurationError, "'/nowhere.toml' cannot be read: No such file"):
            read_toml("/nowhere.toml")
        Path(bad).write_bytes(b"\xff")
        with self.assertRaisesRegex(ConfigurationError, "is not TOML"):
            read_toml(bad)

    def test_the_last_source_wins(self) -> None:
        """Sources before it keep their other settings."""
        settings = broker_settings(
            Source("a", {"data": "a", "id": 1, "flush.ms": 1}), Source("b", {"id": 2}), Source("c", {"flush.ms": 3})
        )
        self.assertEqual((settings.data, settings.id, settings.log.flush_ms), ("a", 2, 3))

    def test_an_unknown_key_is_refused_with_suggestions(self) -> None:
        """A misspelt retention that was ignored would keep data for the wrong time."""
        for key, words in (
            ("retention.hours", "retention.ms"),
            ("segment.byte", "segment.bytes"),
            ("segment", "segment.bytes or segment.ms"),
            ("data.x", "data"),
            ("zzz", "allowed are administration.requests, advertise, "),
        ):
            with self.assertRaises(ConfigurationError) as caught:
                broker_settings(DATA, Source("broker.toml", {key: 1}))
            self.assertIn(f"broker.toml: there is no setting '{key}'", str(caught.exception))
            self.assertIn(words, str(caught.exception))

    def test_a_bad_value_is_refused_with_its_place(self) -> None:
        """The error has the key, the file and what is allowed."""
        path = self.toml('data = "d"\nflush.ms = "1s"')
        with self.assertRaises(ConfigurationError) as caught:
            broker_settings(read_toml(path))
        self.assertEqual(
            str(caught.exception),
            f"{path}: flush.ms = '1s' is not allowed; allowed is a whole number of milliseconds from 0 to 604800000"
            ", or -1 for no such time",
        )

    def test_a_broker_needs_a_data_directory(self) -> None:
        """A default would put logs where no operator expects them."""
        with self.assertRaisesRegex(ConfigurationError, "data is not set: give --data with the path of a directory"):
            broker_settings(Source("", {"id": 1}))

    def test_assignments_are_read_by_their_settings_kind(self) -> None:
        """The last one of a key counts."""
        source = parse_assignments(
            ["flush.ms=1", "topics.create = no", "retention.bytes=-1", "flush.ms=2", "http=tcp:80"]
        )
        self.assertEqual(
            source.values, {"flush.ms": 2, "topics.create": False, "retention.bytes": -1, "http": "tcp:80"}
        )

    def test_a_value_may_contain_equals_signs(self) -> None:
        """Only the first one divides key and value, since endpoints have more."""
        self.assertEqual(parse_assignments(["listen=tcp:1:interface=::1"]).values, {"listen": "tcp:1:interface=::1"})

    def test_a_bad_assignment_is_named(self) -> None:
        """The text may lack the sign, or have an unknown key or a wrong value."""
        for text, words in (
            ("flush.ms", "'flush.ms' is not allowed; allowed is key=value"),
            ("flsh.ms=1", "did you mean flush.ms"),
            ("flush.ms=soon", "flush.ms = 'soon' is not allowed"),
            ("flush.ms=-3", "flush.ms = -3 is not allowed"),
            ("flush.ms=", "flush.ms = '' is not allowed"),
        ):
            with self.assertRaises(ConfigurationError) as caught:
                parse_assignments([text])
            self.assertIn(words, str(caught.exception))
