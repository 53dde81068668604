"""Monitoring events, the messages of topic ``_audit``: one reporter's counts of a topic's messages in one window.

An event is a JSON object:

    cluster           uuid of the cluster in which the reporter counted, "" while that is not known
    tier              "produced", "mirrored", "consumed" or "loaded"
    group             the consumer group; tier consumed alone
    topic
    window, width     start and width of the window, in ms
    origin            the header ``server`` of the messages; "" for none, "*" if the reporter did not open the messages
    reporter          server, process (its id) and instance (a uuid)
    sequence          number of the event among those of its reporter, from 0
    count             messages counted since the reporter's previous event of this kind
    bytes             bytes of their keys and values; missing if the reporter did not open the messages
    first, last       for each partition the first and the last position that the messages own
    open              true: the reporter has begun to count this window, and another event follows
    unsettled         messages that were sent, not acknowledged, and may be stored all the same
    source            uuid of the cluster from which a mirror copied; tier mirrored alone, whose cluster is the target
    copy              name of the topic there, if it is another one; tier mirrored alone
    copied_first,     first and last position of the copies in each partition of the target; tier mirrored alone
    copied_last

Counts of different events add up. Reporter and sequence tell a repeated event from a new one, so an event may arrive
late, twice and in any order. A reporter that counts a window says so first, with ``open``; if no later event of this
reporter follows for the topic and window, the reporter died with messages that no event counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from attrs import field, frozen

from logd.audit.windows import check_width
from logd.checkedjson import INT64_MAX, decimal, excerpt, load_json, whole_number
from logd.errors import InvalidTopic
from logd.topic import check_topic_name

#: The topic of monitoring events.
AUDIT_TOPIC = "_audit"
#: The header that names the server from which a message comes.
SERVER_HEADER = "server"
#: The origin of messages without that header, and of messages that the reporter did not open.
NO_ORIGIN = ""
ALL_ORIGINS = "*"
#: The largest event, in bytes.
MOST_EVENT_BYTES = 1 << 20
#: The longest name of a server, group or cluster, in characters.
MOST_NAME = 255


class Tier(StrEnum):
    """A stage that messages pass."""

    PRODUCED = "produced"
    MIRRORED = "mirrored"
    CONSUMED = "consumed"
    LOADED = "loaded"


@frozen
class Reporter:
    """A counter of messages: one client, mirror, import or broker between its start and its end."""

    server: str
    #: The id of its process.
    process: int
    #: A uuid, made at the start.
    instance: str


@frozen(kw_only=True)
class AuditEvent:
    """One event; see the module for the fields."""

    cluster: str
    tier: Tier
    group: str = ""
    topic: str
    window: int
    width: int
    origin: str
    reporter: Reporter
    sequence: int
    count: int = 0
    bytes: int | None = None
    first: Mapping[int, int] = field(factory=dict)
    last: Mapping[int, int] = field(factory=dict)
    open: bool = False
    unsettled: int = 0
    source: str = ""
    copy: str = ""
    copied_first: Mapping[int, int] = field(factory=dict)
    copied_last: Mapping[int, int] = field(factory=dict)


def encode_event(event: AuditEvent) -> bytes:
    """Return the payload of the message."""
    fields: dict[str, Any] = {"cluster": event.cluster, "tier": event.tier.value}
    if event.tier is Tier.CONSUMED:
        fields["group"] = event.group
    if event.source:
        fields["source"] = event.source
    if event.copy:
        fields["copy"] = event.copy
    reporter = event.reporter
    fields |= {
        "topic": event.topic,
        "window": event.window,
        "width": event.width,
        "origin": event.origin,
        "reporter": {"server": reporter.server, "process": reporter.process, "instance": reporter.instance},
        "sequence": event.sequence,
        "count": event.count,
    }
    if event.bytes is not None:
        fields["bytes"] = event.bytes
    for name in ("first", "last", "copied_first", "copied_last"):
        positions = getattr(event, name)
        if positions:
            fields[name] = {str(partition): at for partition, at in positions.items()}
    if event.open:
        fields["open"] = True
    if event.unsettled:
        fields["unsettled"] = event.unsettled
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_event(payload: bytes | None) -> AuditEvent:
    """Return the event in a message's payload. Unknown fields are left out.

    Raises ValueError, with a short text, for anything that is not an event: ``_audit`` is a topic like others, to which
    anyone can publish.
    """
    found = load_json(payload or b"", MOST_EVENT_BYTES)
    if not isinstance(found, dict):
        raise ValueError(f"an event is a JSON object, not {excerpt(found)}")
    tier = _tier(found.get("tier"))
    is_mirror = tier is Tier.MIRRORED
    first, last = _spans(found, "first", "last")
    copied_first, copied_last = _spans(found if is_mirror else {}, "copied_first", "copied_last")
    width = check_width(whole_number(found.get("width")))
    window = whole_number(found.get("window"), INT64_MAX)
    if window % width:
        raise ValueError(f"no window of {width} ms begins at {window}")
    size = found.get("bytes")
    return AuditEvent(
        cluster=_name(found.get("cluster")),
        tier=tier,
        group=_name(found.get("group")) if tier is Tier.CONSUMED else "",
        topic=_topic(found.get("topic")),
        window=window,
        width=width,
        origin=_name(found.get("origin")),
        reporter=_reporter(found.get("reporter")),
        sequence=whole_number(found.get("sequence"), INT64_MAX),
        count=whole_number(found.get("count"), INT64_MAX),
        bytes=None if size is None else whole_number(size, INT64_MAX),
        first=first,
        last=last,
        open=_flag(found.get("open", False)),
        unsettled=whole_number(found.get("unsettled", 0), INT64_MAX),
        source=_name(found.get("source", "")) if is_mirror else "",
        copy=_topic(found["copy"]) if is_mirror and "copy" in found else "",
        copied_first=copied_first,
        copied_last=copied_last,
    )


def is_name(value: object) -> bool:
    """Return whether a server, group or cluster can have this name in an event."""
    return isinstance(value, str) and len(value) <= MOST_NAME and value.isprintable()


def _name(value: object) -> str:
    if isinstance(value, str) and is_name(value):
        return value
    raise ValueError(f"{excerpt(value)} is no name of at most {MOST_NAME} printable characters")


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"{excerpt(value)} is neither true nor false")


def _tier(value: object) -> Tier:
    try:
        return Tier(value)  # type: ignore[arg-type]  # anything else is a ValueError
    except ValueError:
        raise ValueError(f"{excerpt(value)} is no tier: {', '.join(Tier)}") from None


def _topic(value: object) -> str:
    try:
        return check_topic_name(_name(value))
    except InvalidTopic as error:
        raise ValueError(str(error)) from None


def _reporter(value: object) -> Reporter:
    if not isinstance(value, dict):
        raise ValueError(f"a reporter is a JSON object, not {excerpt(value)}")
    return Reporter(_name(value.get("server")), whole_number(value.get("process")), _name(value.get("instance")))


def _spans(found: Mapping[str, Any], first: str, last: str) -> tuple[dict[int, int], dict[int, int]]:
    """Return the first and the last positions in these two fields."""
    begins, ends = _positions(found.get(first)), _positions(found.get(last))
    if begins.keys() != ends.keys() or any(at > ends[partition] for partition, at in begins.items()):
        raise ValueError(f"{first} and {last} do not name one range of positions for each partition")
    return begins, ends


def _positions(value: object) -> dict[int, int]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"positions are a JSON object, not {excerpt(value)}")
    return {decimal(partition): whole_number(at, INT64_MAX) for partition, at in value.items()}
