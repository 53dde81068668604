"""The verdict on the ledgers at the end: nothing acknowledged is lost, nothing is out of order."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field
from confluent_kafka import Consumer, KafkaError, TopicPartition

from logd.log.epochs.mark import MARK_BYTES
from tests.integration.chaos.ledger import read_rows

#: The bytes of one, two or three marks of epochs one behind the other.
MARKS = (MARK_BYTES, 2 * MARK_BYTES, 3 * MARK_BYTES)
#: Seconds for reading what an idempotent producer has sent.
_READ_SECONDS = 300.0


@define
class Handled:
    """The work of one group in one partition."""

    #: Numbers of messages by their ids.
    numbers: dict[int, int] = field(factory=dict)
    #: The furthest position behind a message that was handled.
    end: int = 0
    #: Messages handled again, counted each time.
    again: int = 0


def read_acknowledged(path: Path) -> dict[int, dict[int, int]]:
    """Return, by partition, the first number of each set by the id that was acknowledged for it."""
    found: dict[int, dict[int, int]] = {}
    for partition, first, _, position in read_rows(path):
        found.setdefault(partition, {})[position] = first
    return found


def read_handled(paths: Iterable[Path], problems: list[str]) -> dict[int, Handled]:
    """Return the work of a group's consumers in all their lives, by partition; add contradictions to ``problems``."""
    found: dict[int, Handled] = {}
    jumps = []
    for path in paths:
        last: dict[int, int] = {}
        for partition, position, behind, number in read_rows(path):
            handled = found.setdefault(partition, Handled())
            known = handled.numbers.get(position)
            if known is None:
                handled.numbers[position] = number
            elif known == number:
                handled.again += 1
            else:
                problems.append(f"{path.name}: partition {partition}, id {position}: {number}, elsewhere {known}")
            if position > last.get(partition, position):
                jumps.append((path.name, partition, last[partition], position))
            last[partition] = behind
            handled.end = max(handled.end, behind)
    for name, partition, before, position in jumps:
        # A jump ahead is right only where another member of the group handled the messages in between: a partition
        # that comes back goes on where it was committed.
        # Or where a leader has begun in between: the mark of its epoch is shorter than any message of this test. The
        # other member may have gone on behind such a mark.
        numbers = found[partition].numbers
        if (position - before) not in MARKS and not any(before + each in numbers for each in (0, *MARKS)):
            problems.append(f"{name}: partition {partition}: from {before} to {position}, and nobody handled {before}")
    return found


def judge_group(
    group: str,
    paths: Iterable[Path],
    acknowledged: Mapping[int, Mapping[int, int]],
    committed: Mapping[int, int],
    set_messages: int,
) -> tuple[list[str], int]:
    """Return the problems found in a group's work, and the number of messages that it handled more than once."""
    problems: list[str] = []
    handled = read_handled(list(paths), problems)
    for partition, sets in acknowledged.items():
        mine = handled.get(partition, Handled())
        numbers = set(mine.numbers.values())
        lost = [n for first in sets.values() for n in range(first, first + set_messages) if n not in numbers]
        if lost:
            problems.append(f"group {group}, partition {partition}: {len(lost)} acknowledged are lost: {lost[:5]}")
        for position, first in sets.items():
            if mine.numbers.get(position, first) != first:
                problems.append(f"group {group}, partition {partition}: id {position} is not what was acknowledged")
        in_order: list[int] = list(dict.fromkeys(number for _, number in sorted(mine.numbers.items())))
        if in_order != sorted(in_order):
            problems.append(f"group {group}, partition {partition}: the log's order is not that of sending")
        beyond = committed.get(partition, 0) - mine.end
        if beyond > 0 and beyond not in MARKS:  # a mark is passed over, and committed with what is behind it
            problems.append(
                f"group {group}, partition {partition}: {committed[partition]} is committed, {mine.end} was handled"
            )
    return problems, sum(each.again for each in handled.values())


def judge_numbers(servers: str, topic: str, ledger: Path) -> list[str]:
    """Return the problems in what an idempotent producer of Kafka's has sent: each number once, in order. Blocks."""
    count = int(ledger.read_text(encoding="ascii"))
    settings: dict[str, Any] = {"bootstrap.servers": servers, "group.id": "judge", "log_level": 0}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    deadline = time.monotonic() + _READ_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(int(message.value() or b"-1"))
        elif error.code() == KafkaError._PARTITION_EOF and len(found) >= count:
            break
    consumer.close()
    if found == list(range(count)):
        return []
    lost, twice = len({*range(count)} - {*found}), len(found) - len({*found})
    return [f"of {count} numbers of an idempotent producer {lost} are lost, and {twice} are there twice"]
