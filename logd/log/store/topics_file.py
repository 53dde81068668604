"""The topics stored in a data directory: the file topics.json.

{
"<topic>": {"uuid": "...", "partitions": {"0": [0], ...}, "settings": {"retention.ms": 1000, ...}, "check": "..."},
...
}

Each topic is on a line of its own, with the CRC-32 of its name and the other values, 8 hex digits (earlier releases
wrote none). So a damaged byte costs only one or two records, which the coordination tree has, too.

An invalid entry, such as one with an invalid topic name, is ignored and stays in the file as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from attrs import define, field

from logd.checkedjson import load_json
from logd.errors import DataDirectoryError, InvalidTopic
from logd.interfaces import IFileOperations
from logd.log.disk.atomic import read_file, replace_file
from logd.log.disk.names import TOPICS, join
from logd.topic import TopicEntry, check_topic_name

_LIMIT = 1 << 30


@define
class TopicsFile:
    """Reads and replaces topics.json of one data directory. Both block."""

    files: IFileOperations
    folder: str
    #: The lines written last, by topic: few of thousands of topics change from one write to the next.
    _lines: dict[str, tuple[TopicEntry, str]] = field(factory=dict, init=False)
    #: Invalid entries as they were read, by name, and the reasons.
    _unusable: dict[str, Any] = field(factory=dict, init=False)
    problems: dict[str, str] = field(factory=dict, init=False)
    damage: str = field(default="", init=False)

    def read(self) -> dict[str, TopicEntry]:
        """Return all topics with sound records, none if there is no file. Raises DataDirectoryError.

        Sets ``damage`` to the problem with the file, "" if there is none.
        """
        path = join(self.folder, TOPICS)
        try:
            data = read_file(self.files, path, _LIMIT)
        except OSError as error:
            raise DataDirectoryError(
                f"{path} cannot be read ({error}): put a copy of it back. Or move it away: the partitions here are "
                "then served under their topics' uuids in the coordination tree, or under new ones if it has none"
            ) from error
        if data is None:
            return {}
        try:
            values = load_json(data, _LIMIT)
            if not isinstance(values, dict):
                raise ValueError("it is no JSON object")
        except ValueError as error:
            self.damage = str(error)
            values = _sound_lines(data)
        found = {}
        for name, value in values.items():
            if isinstance(value, dict) and "check" in value:
                check = value.pop("check")
                if check != _check(name, value):
                    self.damage = f"the checksum of topic {name!r} does not hold"
                    continue
            try:
                found[check_topic_name(name)] = TopicEntry.from_json(value)
            except (ValueError, InvalidTopic) as error:
                self._unusable[name] = value
                self.problems[name] = str(error)
        return found

    def write(self, topics: Mapping[str, TopicEntry]) -> None:
        """Replace all topics, durably on return. Raises OSError. One call at a time."""
        lines = {}
        for name, entry in topics.items():
            known = self._lines.get(name)
            if known is None or known[0] is not entry:
                value = entry.to_json()
                known = entry, f"{json.dumps(name)}: {json.dumps({**value, 'check': _check(name, value)})}"
            lines[name] = known
        unusable = {name: (None, f"{json.dumps(name)}: {json.dumps(value)}") for name, value in self._unusable.items()}
        text = ",\n".join(line for _, (_, line) in sorted({**unusable, **lines}.items()))
        replace_file(self.files, self.folder, TOPICS, f"{{\n{text}\n}}\n".encode())
        self._lines.clear()
        self._lines.update(lines)


def _check(name: str, value: dict[str, Any]) -> str:
    return f"{crc32(json.dumps([name, value], sort_keys=True).encode()):08x}"


def _sound_lines(data: bytes) -> dict[str, Any]:
    """Return the records of a file that is damaged as JSON, from the lines that are valid by themselves."""
    found: dict[str, Any] = {}
    for line in data.split(b"\n"):
        try:
            value = load_json(b"{" + line.strip().removesuffix(b",") + b"}", _LIMIT)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.update(value)
    return found
