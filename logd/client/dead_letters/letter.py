"""A dead letter as a message: the original key, payload, time and headers, and behind these the headers of the letter.

::

    dead-letter.topic      the topic that it came from; the last header of this name begins the letter's own
    dead-letter.partition  the partition, in decimal digits as all numbers here
    dead-letter.id         the id of the message, or the first position of a damaged range
    dead-letter.end        the position behind it
    dead-letter.uuid       the uuid of the topic; empty if it was not known
    dead-letter.group      the group of the consumer; empty without one
    dead-letter.kind       "message", or "range" for damaged bytes of a log
    dead-letter.error      the class of the error; "circle" for a letter around too many others, which is the last one
    dead-letter.text       its text, at most MOST_TEXT characters
    dead-letter.time       ms since the epoch
    dead-letter.attempts   how often handling it was tried
    dead-letter.count      1, or more for a dead letter that has failed again

The payload of a range is its bytes as the log has them, at most MOST_RANGE_BYTES from its beginning.
"""

from __future__ import annotations

from typing import NamedTuple

from attrs import frozen

from logd.checkedjson import INT64_MAX
from logd.errors import InvalidTopic
from logd.protocol.message import Message
from logd.topic import check_topic_name

PREFIX = "dead-letter."
#: Characters of an error's text that are kept, and of its class.
MOST_TEXT = 1000
MOST_NAME = 200
#: Bytes of a damaged range that are kept; with the headers they fit the default of message.bytes.
MOST_RANGE_BYTES = 900_000
MESSAGE, RANGE = "message", "range"
#: The error of a letter around MOST_COUNT others: its dead-letter topics form a circle, or its headers are forged.
CIRCLE = "circle"
MOST_COUNT = 10

_FIRST = PREFIX + "topic"


class Origin(NamedTuple):
    """The place that a dead letter came from: positions ``start`` to ``end`` of a partition, and the reader's group."""

    topic: str
    partition: int
    start: int
    end: int
    uuid: str = ""
    group: str = ""


@frozen(kw_only=True)
class DeadLetter:
    """A dead letter. ``message`` is the original without the letter's headers, or the bytes of a damaged range."""

    origin: Origin
    kind: str
    #: The class of the error, or CIRCLE, and its text.
    error: str
    text: str
    #: The time of the failure, in ms since the epoch.
    time: int
    attempts: int
    count: int
    message: Message

    def encoded(self) -> Message:
        """Return the message to publish."""
        origin = self.origin
        fields: tuple[tuple[str, object], ...] = (
            ("topic", origin.topic),
            ("partition", origin.partition),
            ("id", origin.start),
            ("end", origin.end),
            ("uuid", origin.uuid),
            ("group", origin.group),
            ("kind", self.kind),
            ("error", self.error[:MOST_NAME]),
            ("text", self.text[:MOST_TEXT]),
            ("time", self.time),
            ("attempts", self.attempts),
            ("count", self.count),
        )
        message = self.message
        mine = tuple((PREFIX + name, str(value).encode(errors="backslashreplace")) for name, value in fields)
        return Message(message.payload, key=message.key, timestamp=message.timestamp, headers=(*message.headers, *mine))


def error_words(error: BaseException) -> tuple[str, str]:
    """Return the class and the text of an error."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        text = str(error)
    except Exception:  # an error may not be able to say what it is
        text = "(the error has no text)"
    return name, text


def times_dead(message: Message) -> int:
    """Return how many letters are around a message: 0 for one that never was a dead letter."""
    return sum(name == _FIRST for name, _ in message.headers)


def ends_circle(message: Message) -> bool:
    """Return whether a message is a letter that was the last one of a circle: no letter is made around it."""
    try:
        return read_letter(message).error == CIRCLE
    except ValueError:
        return False


def read_letter(message: Message) -> DeadLetter:
    """Return the dead letter that a message is. Raises ValueError, saying what is wrong, for another message."""
    names = [name for name, _ in message.headers]
    if _FIRST not in names:
        raise ValueError(f"it has no header {_FIRST!r}")
    begin = len(names) - 1 - names[::-1].index(_FIRST)
    found = {name: (value or b"").decode(errors="replace") for name, value in message.headers[begin:]}

    def text(name: str) -> str:
        try:
            return found[PREFIX + name]
        except KeyError:
            raise ValueError(f"it has no header {PREFIX + name!r}") from None

    def number(name: str) -> int:
        digits = text(name)
        if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or int(digits) > INT64_MAX:
            raise ValueError(f"its header {PREFIX + name!r} is {digits[:40]!r}, not a number")
        return int(digits)

    kind = text("kind")
    if kind not in (MESSAGE, RANGE):
        raise ValueError(f"its header {PREFIX + 'kind'!r} is {kind[:40]!r}")
    try:
        topic = check_topic_name(text("topic"))
    except InvalidTopic as error:
        raise ValueError(f"its header {_FIRST!r}: {error}") from None
    original = Message(message.payload, key=message.key, timestamp=message.timestamp, headers=message.headers[:begin])
    return DeadLetter(
        origin=Origin(topic, number("partition"), number("id"), number("end"), text("uuid"), text("group")),
        kind=kind,
        error=text("error"),
        text=text("text"),
        time=number("time"),
        attempts=number("attempts"),
        count=number("count"),
        message=original,
    )
