"""The topics of a broker that has no coordination tree: topics.json in the data directory.

{
"<topic>": {"uuid": "...", "partitions": {"0": [0], ...}, "settings": {"retention.ms": 1000, ...}, "check": "..."},
...
}

Each topic is on a line of its own, with the CRC-32 of its name and the other values, 8 hex digits (former releases
wrote none). So a damaged byte costs one or two records and not all, and the coordination tree has those, too.

An entry that is none of a topic, such as one under a name that no topic may have, is left out, and stays in the file as
it is: the others do not depend on it.
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
    #: The lines of the topics that were written last: of thousands of topics few change from one write to the next.
    _lines: dict[str, tuple[TopicEntry, str]] = field(factory=dict, init=False)
    #: Entries that cannot be used, as they were read; and why, by their names in the file.
    _unusable: dict[str, Any] = field(factory=dict, init=False)
    problems: dict[str, str] = field(factory=dict, init=False)
    damage: str = field(default="", init=False)

    def read(self) -> dict[str, TopicEntry]:
        """Return all topics whose records are sound; none when there is no file. Raises DataDirectoryError.

        ``damage`` says afterwards what is wrong with the file, "" for nothing.
        """
        path = join(self.folder, TOPICS)
        try:
            data = read_file(self.files, path, _LIMIT)
        except OSError as error:
            raise DataDirectoryError(
                f"{path} cannot be read ({error}): put back a copy of it; or move it away, and what is here of each "
                "topic is served under the uuid that the coordination tree has, or under a new one where it has none"
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
        """Replace them all; lasting on return. Raises OSError. One call at a time."""
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
    """Return the records of a file that is no JSON any more: those on lines that are."""
    found: dict[str, Any] = {}
    for line in data.split(b"\n"):
        try:
            value = load_json(b"{" + line.strip().removesuffix(b",") + b"}", _LIMIT)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.update(value)
    return found
