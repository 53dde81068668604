"""Topics in SQL: finds ``topic('name')`` and names of topics in a query, and makes views of these topics.

Spark cannot call a table function of ours, so ``topic('access')`` is replaced by the name of a view before Spark sees
the query. Strings, quoted names and comments are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from logd.errors import UnknownTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The tokens of a query; anything else is one character.
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<comment>/\*)
  | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
  | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<word>[^\W\d]\w*)
  | (?P<number>\d\w*)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Token(NamedTuple):
    """One part of a query; ``kind`` is a group's name of the pattern."""

    kind: str
    text: str


class TopicQuery(NamedTuple):
    """A query for Spark, the topics that it names by ``topic('...')``, and its words that may be names of topics."""

    text: str
    topics: frozenset[str]
    words: frozenset[str]


def tokens(query: str) -> Iterator[Token]:
    """Cut a query into tokens, whose texts together are the query. Comments may be nested, as in Spark."""
    at = 0
    while at < len(query):
        match = _TOKEN.match(query, at)
        assert match is not None, "the last alternative takes any character"
        end = match.end()
        if match.lastgroup == "comment":
            end = _end_of_comment(query, end)
        yield Token(match.lastgroup or "", query[at:end])
        at = end


def _end_of_comment(query: str, at: int) -> int:
    depth = 1
    for edge in _COMMENT_EDGE.finditer(query, at):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    return len(query)


def rewrite(query: str) -> TopicQuery:
    """Replace each ``topic('name')`` by the name of the topic's view, in backticks."""
    parts = list(tokens(query))
    texts: list[str] = []
    topics: set[str] = set()
    words: set[str] = set()
    at = 0
    while at < len(parts):
        kind, text = parts[at]
        call = _call(parts, at) if kind == "word" and text.lower() == "topic" else None
        if call is not None:
            name, at = call
            topics.add(name)
            texts.append(quoted(name))
            continue
        if kind == "word":
            words.add(text)
        elif kind == "quoted":
            words.add(text[1:-1].replace("``", "`"))
        texts.append(text)
        at += 1
    return TopicQuery("".join(texts), frozenset(topics), frozenset(words))


def _call(parts: list[Token], at: int) -> tuple[str, int] | None:
    """Return the name in ``topic ( 'name' )`` that begins at a token, and the index of the token after it."""
    before = _previous(parts, at)
    if before is not None and before.text == ".":
        return None  # a column, or another function
    found = []
    for _ in range(3):
        at = _next(parts, at)
        if at == len(parts):
            return None
        found.append(parts[at])
    opening, name, closing = found
    if (opening.text, closing.text) != ("(", ")") or name.kind not in ("string", "raw"):
        return None
    text = name.text[2:-1] if name.kind == "raw" else _ESCAPE.sub(r"\1", name.text[1:-1])
    return text, at + 1


def _next(parts: list[Token], at: int) -> int:
    at += 1
    while at < len(parts) and parts[at].kind in ("space", "comment"):
        at += 1
    return at


def _previous(parts: list[Token], at: int) -> Token | None:
    for part in reversed(parts[:at]):
        if part.kind not in ("space", "comment"):
            return part
    return None


def quoted(name: str) -> str:
    """Return the name quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"


def named_topics(query: TopicQuery, known: frozenset[str]) -> list[str]:
    """Return the ``known`` topics that the query needs. Raises UnknownTopic for an unknown one in ``topic('...')``."""
    for name in sorted(query.topics - known):
        raise UnknownTopic(f"there is no topic {name!r}; 'logd topics list' shows the existing ones")
    return sorted((query.topics | query.words) & known)


def make_views(session: SparkSession, topics: Iterable[str], options: Mapping[str, str]) -> None:
    """Make a view, under its own name, of each topic; ``options`` are those of the source.

    A view has the source's columns, and ``text``: the value as UTF-8, with invalid bytes replaced.
    """
    for name in topics:
        messages = session.read.format("logd").options(**options).option("subscribe", name).load()
        messages = messages.selectExpr("*", "make_valid_utf8(CAST(value AS STRING)) AS text")
        messages.createOrReplaceTempView(quoted(name))
