"""The topics of a broker that has no coordination tree: topics.json in the data directory.

{"<topic>": {"uuid": "...", "partitions": {"0": [0], ...}, "settings": {"retention.ms": 1000, ...}}, ...}
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import frozen

from logd.errors import DataDirectoryError
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

    def read(self) -> dict[str, TopicEntry]:
        """Return all topics; none when there is no file. Raises DataDirectoryError when it is damaged or unreadable."""
        path = join(self.folder, TOPICS)
        try:
            data = read_file(self.files, path, _LIMIT)
            if data is None:
                return {}
            return {check_topic_name(name): TopicEntry.from_json(value) for name, value in json.loads(data).items()}
        except Exception as error:
            raise DataDirectoryError(
                f"{path} is damaged or cannot be read ({error}): put back a copy of it; or move it away, and each "
                "topic is served under a new uuid, with the partitions that are there and the default settings"
            ) from error

    def write(self, topics: Mapping[str, TopicEntry]) -> None:
        """Replace them all; lasting on return. Raises OSError. One call at a time."""
        value = {name: entry.to_json() for name, entry in sorted(topics.items())}
        replace_file(self.files, self.folder, TOPICS, json.dumps(value, indent=1).encode() + b"\n")
