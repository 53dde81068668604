"""The topics that a mirror copies, and their names on the target."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import frozen

from logd.coord.registries.consumers import pattern_text
from logd.errors import ConfigurationError, InvalidTopic
from logd.topic import check_topic_name

#: The topic on the target with the pairs of positions. Never mirrored: its pairs are about another pair of clusters.
PAIRS_TOPIC = "_mirror"
#: The topic of the audit, mirrored with any other (docs/mirror.md).
AUDIT_TOPIC = "_audit"


@frozen
class Rename:
    r"""A rule ``PATTERN=NAME``: topics that match the whole pattern get the name, where ``\1`` stands for a group."""

    pattern: re.Pattern[str]
    name: str

    @classmethod
    def parse(cls, text: str) -> Rename:
        """Return the rule of a text. Raises ConfigurationError."""
        pattern, equals, name = text.rpartition("=")
        if not equals or not pattern or not name:
            raise ConfigurationError(
                rf"rename {text!r} is not allowed; allowed is PATTERN=NAME, such as '(.*)=east.\1'"
            )
        try:
            compiled = re.compile(pattern)
            compiled.sub(name, "")  # which reads the name as a template, whether anything matches or not
        except (re.error, IndexError) as error:
            raise ConfigurationError(f"rename {text!r} is not allowed: {error}") from error
        return cls(compiled, name)

    def apply(self, topic: str) -> str | None:
        """Return the topic's new name; None if the pattern does not match."""
        found = self.pattern.fullmatch(topic)
        return None if found is None else found.expand(self.name)


@frozen
class TopicChoice:
    """The topics to mirror: those whose whole name the pattern matches, and the audit's."""

    pattern: str
    renames: Sequence[Rename] = ()

    def __attrs_post_init__(self) -> None:
        try:
            re.compile(self.pattern)
            pattern_text(self.subscription)  # in which the group of the mirrors takes fewer patterns
        except (re.error, ConfigurationError) as error:
            raise ConfigurationError(f"topics = {self.pattern!r} is not allowed: {error}") from error

    @property
    def subscription(self) -> re.Pattern[str]:
        """Return the pattern of the topics that the mirror's group reads."""
        return re.compile(rf"(?:{self.pattern})|{re.escape(AUDIT_TOPIC)}")

    def target_of(self, topic: str) -> str:
        """Return the topic's name on the target, by the first rule that matches. Raises InvalidTopic."""
        if topic == PAIRS_TOPIC:
            raise InvalidTopic(f"topic {PAIRS_TOPIC!r} has the positions of mirrors, and is not mirrored itself")
        name = topic
        if topic != AUDIT_TOPIC:
            name = next((new for rule in self.renames if (new := rule.apply(topic)) is not None), topic)
        if name == PAIRS_TOPIC:
            raise InvalidTopic(
                f"topic {topic!r} cannot be called {PAIRS_TOPIC!r} on the target, which is the mirrors' own"
            )
        return check_topic_name(name)
