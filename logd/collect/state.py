"""The state as bytes: JSON of the places up to which every source is acknowledged.

::

    {"version": 1, "topic": TOPIC, "files": [
        {"name": where it was first seen, "path": where it is, "device": N, "inode": N, "size": last seen,
         "position": N, "head_bytes": N, "head": HEX, "tail_bytes": N, "tail": HEX,
         "copies": [[path, device, inode, size, modified], ...]}, ...]}

``head`` and ``tail`` are BLAKE2b of 8 bytes over the first ``head_bytes`` bytes and the ``tail_bytes`` bytes before
``position``. Files are in the order in which they were found, so that of one name the oldest is first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attrs import asdict

from logd.collect.files import Seen
from logd.collect.mark import Mark
from logd.collect.source import Source
from logd.errors import LogdError

VERSION = 1


class BadState(LogdError):
    """A state file cannot be used; the text says why and what to do."""


def encode_state(topic: str, sources: Iterable[Source]) -> bytes:
    """The places that are acknowledged."""
    files = [
        {
            "name": source.name,
            "path": source.path,
            "device": source.identity[0],
            "inode": source.identity[1],
            "size": source.sound_size,
            **asdict(source.acknowledged),
            "copies": [list(copy) for copy in source.copies.values()],
        }
        for source in sources
    ]
    return json.dumps({"version": VERSION, "topic": topic, "files": files}).encode() + b"\n"


def decode_state(data: bytes, topic: str) -> list[Source]:
    """The sources of an earlier run, to be verified before they are read on. Raises BadState."""
    try:
        state: Any = json.loads(data)
        version, of = state["version"], state["topic"]
        sources = [_source(each) for each in state["files"]] if version == VERSION else []
    except (ValueError, LookupError, TypeError) as error:
        raise BadState(f"is damaged, or none ({error}): name another one, or move it away to begin anew") from None
    if version != VERSION:
        raise BadState(f"has version {version!r}, and this release knows {VERSION}")
    if of != topic:
        raise BadState(f"is that of topic {of!r}; use another for topic {topic!r}")
    return sources


def _source(entry: dict[str, Any]) -> Source:
    numbers = ("device", "inode", "size", "position", "head_bytes", "tail_bytes")
    device, inode, size, *places = (_checked(entry[name], int) for name in numbers)
    name, path, head, tail = (_checked(entry[name], str) for name in ("name", "path", "head", "tail"))
    position, head_bytes, tail_bytes = places
    mark = Mark(position, head_bytes, head, tail_bytes, tail)
    source = Source(name, (device, inode), path, mark, acknowledged=mark, sound_size=size, verified=False)
    for copy in entry["copies"]:
        seen = Seen(_checked(copy[0], str), *(_checked(number, int) for number in copy[1:]))
        source.copies[seen.identity] = seen
    return source


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(value)
    return value
