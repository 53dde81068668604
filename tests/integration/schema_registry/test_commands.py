"""``logd produce --avro`` and ``logd consume --format avro`` against a real broker and its registry."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.commands.rig import ROOT, CliTestCase


def user(*fields: dict[str, Any]) -> str:
    """Return the text of a record with these fields after its name."""
    return json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}, *fields]})


class AvroCommandTests(CliTestCase):
    """Lines of JSON in, lines of JSON out."""

    def setUp(self) -> None:
        """Start a broker that serves a registry."""
        if find_spec("fastavro") is None:
            self.skipTest("fastavro is not installed")
        http = free_port()
        self.folder = Path(os.path.abspath(self.mktemp()))
        self.folder.mkdir(parents=True)
        self.broker = BrokerProcess(str(self.folder / "broker"), [f"--http=tcp:{http}:interface=127.0.0.1"]).start()
        self.addCleanup(lambda: self.assertEqual(self.broker.stop(), 0))
        self.env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "LOGD_BROKER": self.broker.address,
            "LOGD_ZOOKEEPER": self.broker.coordination,
            "LOGD_REGISTRY": f"http://127.0.0.1:{http}",
        }

    def schema(self, name: str, text: str) -> str:
        """Write a schema; return the path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_lines_are_sent_by_schemas_that_evolve_and_read_again(self) -> None:
        """Each message by the schema that wrote it; as a member of a group too."""
        old = self.schema("old.avsc", user())
        new = self.schema("new.avsc", user({"name": "mail", "type": ["null", "string"], "default": None}))
        self.logd("produce", "users", "--avro", old, given=b'{"name": "ada"}\n{"name": "caf\xc3\xa9"}\n')
        line = b'k\t{"name": "bob", "mail": {"string": "b@c"}}\n'
        self.logd("produce", "users", "--avro", new, "--key-separator", "\\t", given=line)
        expected = [
            (1, None, {"name": "ada"}),
            (1, None, {"name": "caf\u00e9"}),
            (2, "k", {"name": "bob", "mail": {"string": "b@c"}}),
        ]
        for arguments in ((), ("--group", "g")):
            found = self.logd("consume", "users", "--exit-at-end", "--format", "avro", *arguments)
            rows = [json.loads(each) for each in found.splitlines()]
            self.assertEqual([(each["schema"], each["key"], each["value"]) for each in rows], expected)
            self.assertEqual({each["topic"] for each in rows}, {"users"})

    def test_what_cannot_be_sent_or_read_is_named(self) -> None:
        """A line, a schema, a message, a registry that is away; skipping counts."""
        schema = self.schema("s.avsc", user())
        self.logd("produce", "users", "--avro", schema, given=b'{"name": "ada"}\n{"nam": 1}\n', status=1)
        self.assertIn("line 2 of standard input does not fit the schema", self.errors)
        self.logd("produce", "users", "--avro", self.schema("bad.avsc", '"nonsense"'), given=b"{}\n", status=1)
        self.assertIn("the schema cannot be parsed", self.errors)
        broken = self.schema("broken.avsc", user({"name": "age", "type": "int"}))
        self.logd("produce", "users", "--avro", schema, given=b'{"name": "ada"}\n')
        self.logd("produce", "users", "--avro", broken, given=b'{"name": "ada", "age": 1}\n', status=1)
        self.assertIn("incompatible with an earlier schema", self.errors)
        self.logd("produce", "users", given=b"plain\n")
        self.logd("consume", "users", "--exit-at-end", "--format", "avro", status=1)
        self.assertIn("of topic 'users', partition 0 cannot be read", self.errors)
        found = self.logd("consume", "users", "--exit-at-end", "--format", "avro", "--on-corrupt", "skip")
        self.assertEqual([json.loads(each)["value"] for each in found.splitlines()], [{"name": "ada"}])
        self.assertIn("skipped 1 message that could not be decoded", self.errors)
        away = ("--registry", "http://127.0.0.1:1")
        for arguments in ((), ("--group", "h")):
            self.logd("consume", "users", "--exit-at-end", "--format", "avro", *away, *arguments, status=1)
            self.assertIn("the schema registry at http://127.0.0.1:1 does not answer", self.errors)
