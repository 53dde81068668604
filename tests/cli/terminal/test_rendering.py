"""Tests of logd.cli.terminal.rendering: messages as bytes and as JSON."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.terminal.rendering import render_json, render_raw
from logd.protocol.message import Message


def bytes_of(record: dict[str, Any], name: str) -> bytes | None:
    """Return the bytes of a field, as a script would."""
    if f"{name}_base64" in record:
        return base64.b64decode(record[f"{name}_base64"])
    return None if record[name] is None else record[name].encode()


class RenderTests(SynchronousTestCase):
    """``render_raw`` and ``render_json``."""

    def test_raw_payloads_come_out_byte_for_byte(self) -> None:
        """Each is followed by one newline."""
        messages = [Message(b"a\r"), Message(b""), Message(b"\xff\x00"), Message(None, key=b"k")]
        self.assertEqual(render_raw(messages), b"a\r\n\n\xff\x00\n\n")
        self.assertEqual(render_raw([]), b"")

    def test_json_has_every_field(self) -> None:
        """A field without a value is null, so that scripts find all of them."""
        message = Message(b"v", key=b"k", timestamp=5, headers=[("h", b"1"), ("h", None)])
        self.assertEqual(
            json.loads(render_json([message])),
            {
                "topic": None,
                "partition": -1,
                "id": -1,
                "next_position": -1,
                "timestamp": 5,
                "key": "k",
                "headers": [{"name": "h", "value": "1"}, {"name": "h", "value": None}],
                "value": "v",
            },
        )

    def test_bytes_that_are_no_text_have_another_field(self) -> None:
        """No text can then be taken for them."""
        record = json.loads(render_json([Message(b"\xff", key=b"\xfe", headers=[("h", b"\xfd")])]))
        self.assertEqual((record["value_base64"], record["key_base64"]), ("/w==", "/g=="))
        self.assertEqual(record["headers"], [{"name": "h", "value_base64": "/Q=="}])
        self.assertNotIn("value", record)
        self.assertNotIn("key", record)

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.binary(), st.one_of(st.none(), st.binary())), max_size=5))
    def test_each_message_is_one_line_of_json(self, pairs: list[tuple[bytes, bytes | None]]) -> None:
        """The bytes of every field can be recovered, whatever they are."""
        text = render_json([Message(payload, key=key) for payload, key in pairs])
        self.assertEqual(text.count(b"\n"), len(pairs))
        records = [json.loads(line) for line in text.split(b"\n")[:-1]]
        self.assertEqual([(bytes_of(each, "value"), bytes_of(each, "key")) for each in records], pairs)
