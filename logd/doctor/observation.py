"""One result of an examination: the thing, what is the case, how bad that is, and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from attrs import frozen


class Level(IntEnum):
    """The severity of a finding; the greatest decides the exit status of ``logd doctor``."""

    OK = 0
    #: Worth knowing, and possibly meant.
    NOTE = 1
    #: Works now, and will hurt when something else happens.
    WARNING = 2
    #: Does not work, loses data, or lets strangers in.
    PROBLEM = 3


@frozen
class Observation:
    """A sentence about ``subject``, such as a path, a port or a topic."""

    area: str
    level: Level
    subject: str
    text: str
    #: The steps to take; empty where nothing is to be done.
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the finding in plain JSON types."""
        return {
            "area": self.area,
            "level": self.level.name.lower(),
            "subject": self.subject,
            "finding": self.text,
            "remedy": self.remedy,
        }


def worst(findings: Iterable[Observation]) -> Level:
    """Return the greatest level."""
    return max([finding.level for finding in findings], default=Level.OK)
