"""Puts the figures and tables of a result into Markdown pages, between two comments, so that no number is typed.

<!-- peers: figures -->     the paper's Figures 4 and 5
<!-- peers: costs -->       latency against rate, processor time, memory and disk
<!-- peers: tables -->      the tables, and how durable an acknowledged message is
<!-- peers: end -->         the end of each; what stands between is replaced
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from logd.bench.systems.results.chosen import BATCHES, Row, at_batch, at_most_messages, is_logd, number, rows_of
from logd.bench.systems.results.report import lasted_words, machine_words, markdown, rounds_words
from logd.errors import LogdError

#: The calls behind a panel in which clients look alike.
_CALLS = "for 50 to a request logd is given a ready set of 50 in one call, and confluent-kafka is called 50 times"
#: Said of results without the seconds of a measurement, whose clients all had the same number of messages.
_EARLY = "The time of confluent-kafka includes its connecting, half a second"
_PART = re.compile(r"<!-- peers: (?P<name>\w+) -->\n.*?<!-- peers: end -->", re.DOTALL)


def renew(page: Path, result: Mapping[str, Any], folder: Path) -> None:
    """Put ``result`` into the parts of a page; ``folder`` has the drawings. Raises LogdError for a page without any."""
    text = page.read_text(encoding="utf-8")
    if not _PART.search(text):
        raise LogdError(f"{page} has no part between <!-- peers: NAME --> and <!-- peers: end -->")
    page.write_text(renewed(text, result, os.path.relpath(folder, page.parent)), encoding="utf-8")


def renewed(text: str, result: Mapping[str, Any], folder: str) -> str:
    """Return a page with ``result`` in its parts; ``folder`` is where the page finds the drawings.

    Raises LogdError for a part with an unknown name.
    """

    def part(found: re.Match[str]) -> str:
        make = _PARTS.get(found["name"])
        if make is None:
            raise LogdError(f"there is no part of a page named {found['name']!r}: one of {', '.join(_PARTS)}")
        return f"<!-- peers: {found['name']} -->\n{make(result, folder).strip()}\n<!-- peers: end -->"

    return _PART.sub(part, text)


def _figures(result: Mapping[str, Any], folder: str) -> str:
    produced, consumed = rows_of(result, "produce"), rows_of(result, "consume")
    both = f"messages of {result['size']} bytes"
    sent, read = {batch: at_batch(produced, batch) for batch in BATCHES}, at_most_messages(consumed)
    words = "; ".join(f"{title}: {_best(sent[batch])}" for batch, title in BATCHES.items())
    chosen = " with acks 1 where a client has the choice;" if any("acks" in each for each in produced) else ""
    early = "" if "seconds" in result else f". {_EARLY}"
    shown = [
        _image(f"Bars of the {both} that a producer sends in a second; {words}.", folder, "figure-4-producers.svg"),
        f"*Producers (Figure 4 of the paper)*: {both} that one producer sent and had acknowledged in a second, by the "
        f"fastest clients that a Python program has and Kafka's own tools in Java;{chosen} {_CALLS}; "
        f"{lasted_words([row for rows in sent.values() for row in rows.values()])}; "
        f"{rounds_words(result)}; {machine_words(result)}.",
        _image(
            f"Bars of the {both} that a consumer reads in a second: {_best(read)}.",
            folder,
            "figure-5-consumers.svg",
        ),
        f"*Consumers (Figure 5 of the paper)*: {both} that one consumer read in a second from the log's beginning, in "
        f"the same run; {lasted_words(list(read.values()))}{early}.",
    ]
    return "\n\n".join(shown)


def _costs(result: Mapping[str, Any], folder: str) -> str:
    shown = []
    if rows_of(result, "latency"):
        shown += [
            _image("Curves of the time until a message has been read.", folder, "latency-against-rate.svg"),
            "*Latency against rate*: from the moment at which a message was due until the consumer, another process, "
            "had it. A curve that ends before the others, or bends back, is that of a client that did not reach the "
            "rate.",
        ]
    shown += [
        _image("Bars of the processor time for each message.", folder, "processor-time.svg"),
        "*Processor time*, user and system, of both sides, with the client's own batches (or else 50 to a request).",
        _image("Bars of the memory of both sides.", folder, "memory.svg"),
        "*Memory*: the largest resident set of each side during these loads, the interpreter's or JVM's own included.",
        _image("Bars of the bytes on the disk for each message.", folder, "disk.svg"),
        "*Disk*: growth of the system's files by the end of the load, without holes. What a system still has only in "
        "its memory is not in them, and growth below the payload's bytes is no measure: then files were rewritten.",
    ]
    return "\n\n".join(shown)


def _tables(result: Mapping[str, Any], folder: str) -> str:
    return markdown(result)


_PARTS: Mapping[str, Callable[[Mapping[str, Any], str], str]] = {
    "figures": _figures,
    "costs": _costs,
    "tables": _tables,
}


def _image(words: str, folder: str, name: str) -> str:
    return f"![{words}]({folder}/{name})"


def _best(rows: Mapping[str, Row]) -> str:
    """Return the fastest row of logd's and of the others, in words."""
    best = []
    for ours in (True, False):
        found = [(row["messages_per_second"], name) for name, row in rows.items() if is_logd(name) == ours]
        if found:
            rate, name = max(found)
            best.append(f"{name} {number(rate)}")
    return ", the fastest of the others ".join(best) or "not measured"
