"""The topics of a broker that has no coordination tree: topics.json in the data directory.

{"<topic>": {"uuid": "...", "partitions": {"0": [0], ...}, "settings": {"retention.ms": 1000, ...}}, ...}

An entry that is none of a topic, such as one under a name that no topic may have, is left out, and stays in the file as
it is: the others do not depend on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from logd.checkedjson import load_json
from logd.errors import DataDirectoryError, InvalidTopic
from logd.interfaces import IFileOperations
from logd.log.atomic import read_file, replace_file
from logd.log.names import TOPICS, join
from logd.topic import TopicEntry, check_topic_name

_LIMIT = 1 << 30


@frozen
class TopicsFile:
    """Reads and replaces topics.json of one data directory. Both block."""

    files: IFileOperations
    folder: str
    #: The lines of the topics that were written last: of thousands of topics few change from one write to the next.
    _lines: dict[str, tuple[TopicEntry, str]] = field(factory=dict, init=False)
    #: Entries that cannot be used, as they were read; and why, by their names in the file.
    _unusable: dict[str, Any] = field(factory=dict, init=False)
    problems: dict[str, str] = field(factory=dict, init=False)

    def read(self) -> dict[str, TopicEntry]:
        """Return all topics; none when there is no file. Raises DataDirectoryError when it is damaged or unreadable."""
        path = join(self.folder, TOPICS)
        try:
            data = read_file(self.files, path, _LIMIT)
            if data is None:
                return {}
            found = {}
            for name, value in load_json(data, _LIMIT).items():
                try:
                    found[check_topic_name(name)] = TopicEntry.from_json(value)
                except (ValueError, InvalidTopic) as error:
                    self._unusable[name] = value
                    self.problems[name] = str(error)
            return found
        except Exception as error:
            raise DataDirectoryError(
                f"{path} is damaged or cannot be read ({error}): put back a copy of it; or move it away, and each "
                "topic is served under a new uuid, with the partitions that are there and the default settings"
            ) from error

    def write(self, topics: Mapping[str, TopicEntry]) -> None:
        """Replace them all; lasting on return. Raises OSError. One call at a time."""
        lines = {}
        for name, entry in topics.items():
            known = self._lines.get(name)
            if known is None or known[0] is not entry:
                known = entry, f"{json.dumps(name)}: {json.dumps(entry.to_json())}"
            lines[name] = known
        unusable = {name: (None, f"{json.dumps(name)}: {json.dumps(value)}") for name, value in self._unusable.items()}
        text = ",\n".join(line for _, (_, line) in sorted({**unusable, **lines}.items()))
        replace_file(self.files, self.folder, TOPICS, f"{{\n{text}\n}}\n".encode())
        self._lines.clear()
        self._lines.update(lines)
