"""Changes by the console's forms: create a topic; move the positions of a group, after a look at them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from attrs import define, frozen

from logd.client.admin.group_reset import target
from logd.client.starting_positions import Position
from logd.config import LogSettings
from logd.coord.errors import CoordinationError
from logd.coord.groups.group_changes import GroupLive, check_no_kafka_members, move_positions
from logd.coord.groups.inspection import GroupEntry, UnknownGroup, read_group
from logd.deferreds.gathering import gather_some
from logd.errors import CoordinationUnavailable, InvalidRequest, LogdError, TopicCreationDisabled, UnknownTopic
from logd.security.access_rules import Operation, ResourceType
from logd.topic import TopicPartition, check_topic_name
from logd.web.console.pages import Asked, NoPage, Page, parse_place
from logd.web.console.sources import ConsoleSources

#: The most partitions that the form makes.
MOST_PARTITIONS = 1000


@frozen
class FormOutcome:
    """The address to which the browser goes next, or a page to show."""

    location: str = ""
    page: Page | None = None


@define(eq=False)
class ConsoleActions:
    """Does what a form asks for. Raises LogdError for what cannot be done."""

    _reactor: Any
    _sources: ConsoleSources

    async def take(self, asked: Asked) -> FormOutcome:
        """Take the form that was sent to a path."""
        log = self._sources.broker.administration_log
        match asked.path:
            case ("topics",):
                action, name = "create topic", asked.query.get("topic", "")
                doing = self._create_topic(asked)
            case ("groups", name, "reset"):
                action, doing = "reset group", self._reset_group(asked, name)
            case _:
                raise NoPage("there is no such form")
        try:
            return await doing
        except LogdError as error:
            log.record(asked.requester, action, name, error=error)
            raise

    async def _create_topic(self, asked: Asked) -> FormOutcome:
        broker = self._sources.broker
        name = check_topic_name(asked.query.get("topic", ""))
        if not asked.may(Operation.CREATE, ResourceType.CLUSTER):
            asked.check(Operation.CREATE, ResourceType.TOPIC, name)
        if not broker.settings.creates_on_request:
            raise TopicCreationDisabled("topics.create = false on this broker")
        partitions = asked.number("partitions", 1)
        if not 1 <= partitions <= MOST_PARTITIONS:
            raise InvalidRequest(f"{partitions} partitions are not allowed here; allowed are 1 to {MOST_PARTITIONS}")
        days = asked.query.get("retention", "").strip()
        settings = LogSettings.parse({"retention.ms": str(_milliseconds(days))}) if days else {}
        await broker.create_topic(asked.requester, name, partitions, settings)
        broker.administration_log.record(asked.requester, "create topic", name, partitions=partitions)
        return FormOutcome(f"/console/topics/{quote(name)}")

    async def _reset_group(self, asked: Asked, name: str) -> FormOutcome:
        asked.check(Operation.READ, ResourceType.GROUP, name)
        topic = check_topic_name(asked.query.get("topic", ""))
        asked.check(Operation.READ, ResourceType.TOPIC, topic)
        place = parse_place(asked.query.get("to", ""))
        if place is None:
            raise InvalidRequest("give where the group goes on: earliest, latest, a time or a position")
        wanted = self._sources.topic(topic)["numbers"]
        one = asked.query.get("partition", "").strip()
        if one:
            wanted = [asked.number("partition", 0)]
            if wanted[0] not in self._sources.topic(topic)["numbers"]:
                raise UnknownTopic(f"topic {topic!r} has no partition {wanted[0]}")
        elif isinstance(place, Position):
            raise InvalidRequest("a position needs a partition: each partition counts its own bytes")
        try:
            entry = await read_group(self._sources.tree, name)
        except UnknownGroup:
            entry = GroupEntry(name)
        except ValueError:
            raise UnknownGroup(f"there is no group {name[:300]!r}: no group can be called so") from None
        except CoordinationError as error:
            raise CoordinationUnavailable(f"the coordination tree does not answer: {error}") from error
        check_no_kafka_members(entry)
        places = [TopicPartition(topic, number) for number in wanted]
        async with self._sources.admin() as admin:
            work = (target(admin, self._sources.consumer, self._reactor, where, place) for where in places)
            positions = dict(zip(places, await gather_some(work, 20), strict=True))
        rows = [
            (where.partition, None if (offset := entry.offsets.get(where)) is None else offset.position, position)
            for where, position in positions.items()
        ]
        values = {"name": name, "topic": topic, "rows": rows, "live": entry.live, "fields": _fields(asked)}
        if asked.query.get("confirmed") != "1":
            return FormOutcome(page=Page("reset", f"Reset {name}", values))
        if entry.live:
            raise GroupLive(f"group {name!r} is live: stop its consumers first, or use `logd groups reset --force`")
        try:
            await move_positions(self._sources.tree, name, entry.offsets, positions)
        except CoordinationError as error:
            raise CoordinationUnavailable(f"the coordination tree does not answer: {error}") from error
        log = self._sources.broker.administration_log
        log.record(asked.requester, "reset group", name, topic=topic, partitions=len(rows))
        return FormOutcome(f"/console/groups/{quote(name)}")


def _fields(asked: Asked) -> dict[str, str]:
    return {name: asked.query.get(name, "") for name in ("topic", "partition", "to")}


def _milliseconds(days: str) -> int:
    try:
        found = float(days)
        if 0 < found < 1e6:
            return round(found * 86_400_000)
    except ValueError:
        pass
    raise InvalidRequest(f"{days[:100]!r} days are not allowed; allowed is a number of days above 0, or nothing")
