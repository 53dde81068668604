"""The pages of the console: from the query of a request to the values that a template shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import define, field, frozen

from logd.broker.security.authorizer import Authorizer
from logd.broker.security.requester import Requester
from logd.client.starting_positions import Position, Start, Time
from logd.errors import ClusterAuthorizationFailed, InvalidRequest, LogdError
from logd.schema_registry.registry import SchemaRegistry
from logd.security.access_rules import CLUSTER_NAME, Operation, ResourceType
from logd.topic import check_topic_name
from logd.web.console.avro_values import AvroTexts, avro_texts
from logd.web.console.rows import TopicRow
from logd.web.console.sources import MOST_MESSAGES, ConsoleSources
from logd.web.console.texts import FORMATS, retention

#: The form of messages in Confluent's framing, by their schemas.
AVRO = "avro"
#: Rows of one page.
PAGE_ROWS = 100

_SORTS: Mapping[str, Callable[[TopicRow], Any]] = {
    "name": lambda row: row.name,
    "size": lambda row: -(row.bytes or -1),
    "rate": lambda row: -(row.rate if row.rate is not None else -1.0),
    "partitions": lambda row: -row.partitions,
}


@frozen
class Asked:
    """One request for a page: who asks, for what, and the fields of its query."""

    requester: Requester
    authorizer: Authorizer
    #: The parts of the path behind /console, such as ("topics", "clicks").
    path: tuple[str, ...]
    query: Mapping[str, str]

    def may(self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether the person may do this."""
        return self.authorizer.allows(self.requester, operation, kind, name)

    def may_create_some(self) -> bool:
        """Return whether the person may create any topic at all, so that a form for that is of use."""
        return self.may(Operation.CREATE, ResourceType.CLUSTER) or self.authorizer.allows_some(
            self.requester, Operation.CREATE, ResourceType.TOPIC
        )

    def check(self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise the error to show unless the person may do this."""
        refusal = self.authorizer.refusal(self.requester, operation, kind, name)
        if refusal is not None:
            raise refusal

    def may_see_topic(self, name: str) -> bool:
        """Return whether the person may know that a topic exists."""
        return self.may(Operation.DESCRIBE, ResourceType.TOPIC, name)

    def check_anything(self, rows: Collection[Any], what: str) -> None:
        """Have a person that has not authenticated asked for a user and a password rather than shown an empty list."""
        if not rows and not self.requester.authenticated and not self.authorizer.open:
            raise ClusterAuthorizationFailed(f"there are no {what} that everybody may see: log in")

    def number(self, name: str, default: int) -> int:
        """Return a whole number of the query. Raises InvalidRequest."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise InvalidRequest(f"{name} = {text[:100]!r} is not allowed; allowed is a whole number")
        return int(text)


@frozen
class Page:
    """A template with the values that it shows."""

    template: str
    title: str
    values: Mapping[str, Any]
    #: Seconds between two updates of the page while somebody looks at it; 0 for none.
    live: float = 0.0


@define(eq=False)
class ConsolePages:
    """Makes each page. Raises LogdError for what cannot be shown."""

    _sources: ConsoleSources
    #: Returns the schema registry, None for none.
    _registry: Callable[[], SchemaRegistry | None] = lambda: None
    _texts: AvroTexts | None = field(default=None, init=False)

    def _avro(self) -> AvroTexts:
        if self._texts is None:
            self._texts = avro_texts(self._registry())
        return self._texts

    async def page(self, asked: Asked) -> Page:
        """Return the page of a path."""
        match asked.path:
            case ():
                return await self.cluster(asked)
            case ("topics",):
                return await self.topics(asked)
            case ("topics", name):
                return await self.topic(asked, name)
            case ("topics", name, "messages"):
                return await self.messages(asked, name)
            case ("groups",):
                return await self.groups(asked)
            case ("groups", name):
                return await self.group(asked, name)
            case ("audit",):
                return await self.audit(asked)
            case _:
                raise NoPage(f"there is no page {'/'.join(('/console', *asked.path))!r}")

    async def cluster(self, asked: Asked) -> Page:
        """The brokers, what is wrong, and the charts."""
        asked.check(Operation.DESCRIBE, ResourceType.CLUSTER)
        overview = await self._sources.overview()
        moving = sorted(overview["requested"].reassignments)
        overview["moving"] = [name for name in moving if asked.may_see_topic(name)]
        return Page("cluster", "Cluster", overview, 5.0)

    async def topics(self, asked: Asked) -> Page:
        """The topics, a page at a time."""
        wanted, order = asked.query.get("q", "")[:249], asked.query.get("sort", "name")
        if order not in _SORTS:
            raise InvalidRequest(f"sort = {order[:100]!r} is not allowed; allowed is {', '.join(_SORTS)}")
        rows = await self._sources.topics.all(wanted, asked.may_see_topic)
        asked.check_anything(rows, "topics")
        rows.sort(key=_SORTS[order])
        shown, paging = _paged(rows, asked)
        shown = await self._sources.topics.with_sizes(shown)
        return Page(
            "topics",
            "Topics",
            {
                "rows": [(row, retention(row.retention_ms, row.retention_bytes)) for row in shown],
                "wanted": wanted,
                "order": order,
                "paging": paging,
                "may_create": asked.may_create_some(),
            },
            5.0,
        )

    async def topic(self, asked: Asked, name: str) -> Page:
        """One topic and its partitions."""
        asked.check(Operation.DESCRIBE, ResourceType.TOPIC, check_topic_name(name))
        found = self._sources.topic(name)
        numbers, paging = _paged(found["numbers"], asked)
        (row,) = await self._sources.topics.with_sizes([found["row"]])
        return Page(
            "topic",
            name,
            {
                **found,
                "row": row,
                "name": name,
                "rows": await self._sources.partitions(name, numbers),
                "paging": paging,
                "retention": retention(row.retention_ms, row.retention_bytes),
                "may_read": asked.may(Operation.READ, ResourceType.TOPIC, name),
            },
            5.0,
        )

    async def groups(self, asked: Asked) -> Page:
        """The groups, what is worst first."""
        rows = [
            row.without_topics(asked.may_see_topic)
            for row in await self._sources.groups.all()
            if asked.may(Operation.DESCRIBE, ResourceType.GROUP, row.name)
        ]
        asked.check_anything(rows, "groups")
        shown, paging = _paged(rows, asked)
        return Page("groups", "Groups", {"rows": shown, "paging": paging}, 10.0)

    async def group(self, asked: Asked, name: str) -> Page:
        """One group, its owners and its lag."""
        asked.check(Operation.DESCRIBE, ResourceType.GROUP, name)
        row, found, entry = await self._sources.groups.one(name)
        lags = [lag for lag in found if asked.may_see_topic(lag.topic)]
        lags = sorted(lags, key=lambda lag: (-(lag.lag_bytes or 0), lag.topic, lag.partition))
        shown, paging = _paged(lags, asked)
        return Page(
            "group",
            name,
            {
                "row": row.without_topics(asked.may_see_topic),
                "rows": shown,
                "hidden": len(found) - len(lags),
                "paging": paging,
                "members": sorted(entry.consumers),
                "may_reset": asked.may(Operation.READ, ResourceType.GROUP, name) and entry.coordinator is None,
                "live": entry.live,
            },
            10.0,
        )

    async def messages(self, asked: Asked, name: str) -> Page:
        """Messages of a partition."""
        asked.check(Operation.READ, ResourceType.TOPIC, check_topic_name(name))
        partition = asked.number("partition", 0)
        form = asked.query.get("format", "text")
        forms = [*FORMATS, AVRO]
        if form not in forms:
            raise InvalidRequest(f"format = {form[:100]!r} is not allowed; allowed is {', '.join(forms)}")
        text = asked.query.get("from", "")
        most = min(asked.number("count", 20), MOST_MESSAGES)
        found = await self._sources.messages(name, partition, parse_place(text), most)
        if form == AVRO:
            texts = await self._avro().texts(found.messages)
        else:
            texts = [FORMATS[form](message.payload) for message in found.messages]
        return Page(
            "messages",
            f"Messages of {name}",
            {
                "name": name,
                "partition": partition,
                "partitions": self._sources.topic(name)["numbers"],
                "format": form,
                "formats": forms,
                "place": text,
                "count": most,
                "found": found,
                "rows": [
                    (message, text, _header_text(message.headers))
                    for message, text in zip(found.messages, texts, strict=True)
                ],
            },
            0.0 if text else 2.0,
        )

    async def audit(self, asked: Asked) -> Page:
        """The audit's windows of the last day."""
        asked.check(Operation.DESCRIBE, ResourceType.CLUSTER)
        verdicts, whole = await self._sources.audit()
        failed = asked.query.get("failed") == "1"
        wanted = [each for each in verdicts if (each.failed or not failed) and asked.may_see_topic(each.topic)]
        shown, paging = _paged(wanted, asked)
        return Page("audit", "Audit", {"rows": shown, "paging": paging, "whole": whole, "failed": failed}, 30.0)


class NoPage(LogdError):
    """There is no such page."""


def parse_place(text: str) -> Start | None:
    """Return the start that a person has typed: nothing for the last messages; a time without a zone is in UTC.

    Raises InvalidRequest.
    """
    text = text.strip()
    try:
        if not text:
            return None
        if text == "earliest":
            return "earliest"
        if text == "latest":
            return "latest"
        if text.isascii() and text.isdigit():
            return Position(int(text[:20]))
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:  # as all times on the pages are
            moment = moment.replace(tzinfo=UTC)
        return Time(round(moment.timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise InvalidRequest(
            f"{text[:100]!r} is not allowed as a place; allowed is a position, earliest, latest, or a time such as "
            "2011-11-11T06:00:00Z"
        ) from None


def _paged(rows: list[Any], asked: Asked) -> tuple[list[Any], dict[str, Any]]:
    """Return the rows of the page that is asked for, and what the links to other pages need."""
    pages = max(1, -(-len(rows) // PAGE_ROWS))
    page = min(max(asked.number("page", 1), 1), pages)
    first = (page - 1) * PAGE_ROWS
    others = {name: value for name, value in asked.query.items() if name != "page"}
    return rows[first : first + PAGE_ROWS], {
        "page": page,
        "pages": pages,
        "rows": len(rows),
        "first": first + 1 if rows else 0,
        "last": min(first + PAGE_ROWS, len(rows)),
        "query": others,
    }


def _header_text(headers: Any) -> str:
    return ", ".join(
        f"{name}={'' if value is None else value.decode('utf-8', 'backslashreplace')}" for name, value in headers
    )[:1000]
