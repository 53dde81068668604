"""How messages are written to standard output: as they are, or as JSON, one line each."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

from logd.protocol.message import Message

#: Makes the bytes to write of some messages.
Render = Callable[[Sequence[Message]], bytes]


def render_raw(messages: Sequence[Message]) -> bytes:
    """Each payload and a newline; nothing but the newline for a tombstone."""
    payloads = [message.payload or b"" for message in messages]
    payloads.append(b"")
    return b"\n".join(payloads)


def render_json(messages: Sequence[Message]) -> bytes:
    """One object for each message; bytes that are no UTF-8 are in base64, in a field named for it.

    Fields: topic, partition, id, next_position, timestamp (ms or null), key and value (text or null; else key_base64
    and value_base64), headers (a list of objects with name and value or value_base64).
    """
    return "".join([json.dumps(_record(message), ensure_ascii=False) + "\n" for message in messages]).encode()


FORMATS: dict[str, Render] = {"raw": render_raw, "json": render_json}


def _record(message: Message) -> dict[str, Any]:
    record: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "id": message.id,
        "next_position": message.next_position,
        "timestamp": message.timestamp,
    }
    _put(record, "key", message.key)
    headers: list[dict[str, Any]] = []
    for name, value in message.headers:
        header: dict[str, Any] = {"name": name}
        _put(header, "value", value)
        headers.append(header)
    record["headers"] = headers
    _put(record, "value", message.payload)
    return record


def _put(record: dict[str, Any], name: str, value: bytes | None) -> None:
    if value is None:
        record[name] = None
        return
    try:
        record[name] = value.decode()
    except UnicodeDecodeError:
        record[f"{name}_base64"] = b64encode(value).decode("ascii")
