"""The state as bytes: JSON of the marks up to which every source is acknowledged.

::

    {"version": 1, "topic": TOPIC, "patterns": [PATTERN, ...], "files": [
        {"name": first path, "path": current path, "device": N, "inode": N, "size": last seen,
         "modified": NS, "position": N, "head_bytes": N, "head": HEX, "tail_bytes": N, "tail": HEX,
         "copies": [[path, device, inode, size, modified], ...]}, ...],
     "passed": [rotated files that are not read: as above, without copies], ...]}

Earlier releases did not write ``patterns``, ``modified`` and ``passed``, and ignore them.
``head`` and ``tail`` are BLAKE2b of 8 bytes over the first ``head_bytes`` bytes and the ``tail_bytes`` bytes before
``position``. The head may be longer than what was read: it is of bytes that were seen. A file that could not be read
since a first start at the end has ``skip_to`` too, its size then: as much of it is to be skipped. Files are in the
order in which they were found, so the oldest of one name is first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import asdict, frozen

from logd.collect.files import Seen
from logd.collect.read_mark import ReadMark, beginning
from logd.collect.rotation.siblings import Passed
from logd.collect.source import SourceFile
from logd.errors import LogdError

VERSION = 1


class BadState(LogdError):
    """A state file cannot be used; the message says why and what to do."""


@frozen
class State:
    """The state of a collector between two runs."""

    #: In reading order: the oldest of one name first.
    sources: Sequence[SourceFile]
    #: The patterns that were followed; None in a state written by a release that did not store them.
    patterns: frozenset[str] | None = None
    #: Rotated files that are known and not read.
    passed: Sequence[Passed] = ()


def encode_state(topic: str, state: State) -> bytes:
    """Return the state as bytes, with the acknowledged mark of each source."""
    files = [
        {
            **_seen(source.name, Seen(source.path, *source.identity, source.sound_size, source.modified)),
            **asdict(source.kept),
            **({"skip_to": source.skip_to} if source.skip_to else {}),
            "copies": [list(copy) for copy in source.copies.values()],
        }
        for source in state.sources
    ]
    passed = [{**_seen(each.name, each.seen), **asdict(each.mark)} for each in state.passed]
    whole = {"version": VERSION, "topic": topic, "patterns": sorted(state.patterns or ()), "files": files}
    return json.dumps({**whole, "passed": passed}).encode() + b"\n"


def _seen(name: str, seen: Seen) -> dict[str, Any]:
    return {"name": name, **seen._asdict()}


def decode_state(data: bytes, topic: str) -> State:
    """Return the state of an earlier run, whose sources have yet to be verified. Raises BadState."""
    try:
        state: Any = json.loads(data)
        version, of = state["version"], state["topic"]
        decoded = State([])
        if version == VERSION:
            patterns = state.get("patterns")
            decoded = State(
                [_source(each) for each in state["files"]],
                None if patterns is None else frozenset(_checked(each, str) for each in patterns),
                [Passed(*_entry(each)) for each in state.get("passed", ())],
            )
    except (ValueError, LookupError, TypeError) as error:
        raise BadState(
            f"is damaged, or not a state file ({error}): give another one, or move it away to begin anew"
        ) from None
    if version != VERSION:
        raise BadState(f"has version {version!r}, but this release supports only {VERSION}")
    if of != topic:
        raise BadState(f"belongs to topic {of!r}; give another one for topic {topic!r}")
    return decoded


def _entry(entry: dict[str, Any]) -> tuple[str, Seen, ReadMark]:
    numbers = ("device", "inode", "size", "position", "head_bytes", "tail_bytes")
    device, inode, size, position, head_bytes, tail_bytes = (_checked(entry[name], int) for name in numbers)
    name, path, head, tail = (_checked(entry[name], str) for name in ("name", "path", "head", "tail"))
    modified = _checked(entry.get("modified", -1), int)
    return name, Seen(path, device, inode, size, modified), ReadMark(position, head_bytes, head, tail_bytes, tail)


def _source(entry: dict[str, Any]) -> SourceFile:
    name, seen, mark = _entry(entry)
    source = SourceFile(name, seen.identity, seen.path, sound_size=seen.size, verified=False)
    source.birth = beginning(mark)
    if mark.position:
        source.mark = source.acknowledged = mark
    source.modified = seen.modified
    source.skip_to = _checked(entry.get("skip_to", 0), int)
    for copy in entry["copies"]:
        copied = Seen(_checked(copy[0], str), *(_checked(number, int) for number in copy[1:]))
        source.copies[copied.identity] = copied
    return source


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(value)
    return value
