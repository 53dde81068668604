"""``logd dead-letters list``: shows the letters of a topic, up to its present end."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click
from attrs import define, field

from logd.cli.dead_letters.selection import Selection, is_chosen, only_option
from logd.cli.messages.failures import complain_of, complain_of_rest
from logd.cli.messages.gone_topic import read_while_there
from logd.cli.options import broker_option, json_option, topic_argument
from logd.cli.reactor_command import run
from logd.cli.terminal.exits import complain
from logd.cli.terminal.tables import show
from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.fetching.losses import LossReporter
from logd.client.dead_letters.letter import DeadLetter, read_letter
from logd.client.starting_positions import Position
from logd.plurals import counted
from logd.protocol.message import Message

#: Rows of one table, so that a long list needs bounded memory.
ROWS = 1000
#: Characters of an error's text in the table; --json has all of them.
TEXT = 100
_COLUMNS = ("when", "topic", "partition", "id", "group", "kind", "error", "why", "attempts", "count")


@click.command("list", short_help="Show the dead letters in a topic.")
@topic_argument
@broker_option
@only_option
@click.option("--max", "most", type=click.IntRange(1), metavar="N", help="End after N letters.")
@json_option
@click.pass_context
def list_(ctx: click.Context, /, **options: Any) -> None:
    """List the dead letters in TOPIC, the oldest of each partition first: when, where from, why, and the attempts.

    With --json one object for each letter: at is its own place in TOPIC. Messages that are no dead letters are counted
    on standard error.
    """
    ctx.exit(run(lambda reactor: _list(reactor, **options)))


async def _list(reactor: Any, topic: str, broker: str, only: Selection, most: int | None, as_json: bool) -> None:
    admin = Admin(broker, reactor=reactor)
    try:
        described = await admin.describe(topic)
        logs = await admin.describe_logs(topic, [each.partition for each in described.partitions])
        until = {number: log.visible_end for number, log in logs.items() if log.log_start < log.visible_end}
        listed = ListedLetters(topic, only, most, as_json)
        if until:
            consumer = Consumer(broker, reactor=reactor, on_corrupt="skip")
            starts = {number: Position(logs[number].log_start) for number in until}
            try:
                await read_while_there(reactor, admin, topic, described.uuid, listed.read(consumer, starts, until))
            finally:
                await consumer.close()
    finally:
        await admin.close()
    listed.end()


@define
class ListedLetters:
    """The letters that were read, and the rows that are still to be shown."""

    topic: str
    only: Selection
    most: int | None
    as_json: bool
    found: int = 0
    others: int = 0
    rows: list[tuple[object, ...]] = field(factory=list)

    async def read(self, consumer: Consumer, starts: dict[int, Position], until: dict[int, int]) -> None:
        """Read and show letters up to the ends."""
        (stream,) = consumer.create_message_streams(self.topic, 1, sorted(until), start=starts)
        losses = LossReporter()
        try:
            async for batch in stream.batches(until):
                complain_of(losses, batch)
                for message in batch.messages:
                    self._add(message)
                if len(self.rows) >= ROWS:
                    self._show()
                if self.found == self.most:
                    break
        finally:
            self._show()  # also if the topic is deleted meanwhile: nobody can read these letters again
        complain_of_rest(losses)
        if stream.skipped:
            complain(f"skipped {counted(stream.skipped, 'damaged range')} of topic {self.topic!r}")

    def _add(self, message: Message) -> None:
        letter = _letter(message)
        if letter is None:
            self.others += 1
        elif is_chosen(letter, self.only) and self.found != self.most:
            self.found += 1
            if self.as_json:
                click.echo(json.dumps(_object(message, letter)))
            else:
                self.rows.append(_row(letter))

    def _show(self) -> None:
        if self.rows:
            show(_COLUMNS, self.rows)
            self.rows.clear()

    def end(self) -> None:
        """Show the headings if there are no letters, and tell of messages that are none."""
        if not self.as_json and not self.found:
            show(_COLUMNS, [])
        if self.others:
            complain(
                f"{counted(self.others, 'message')} of topic {self.topic!r} without the headers of a dead letter: "
                "not listed"
            )


def _letter(message: Message) -> DeadLetter | None:
    try:
        return read_letter(message)
    except ValueError:
        return None


def _time(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)


def _plain(text: str) -> str:
    """Return text for one line of a terminal: whatever controls it is written as an escape."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _row(letter: DeadLetter) -> tuple[object, ...]:
    origin = letter.origin
    why = letter.text if len(letter.text) <= TEXT else f"{letter.text[:TEXT]}..."
    return (
        *(_time(letter.time), _plain(origin.topic), origin.partition, origin.start, _plain(origin.group)),
        *(letter.kind, _plain(letter.error), _plain(why), letter.attempts, letter.count),
    )


def _object(message: Message, letter: DeadLetter) -> dict[str, object]:
    origin = letter.origin
    return {
        "at": {"partition": message.partition, "id": message.id, "next_position": message.next_position},
        "time": letter.time,
        "topic": origin.topic,
        "partition": origin.partition,
        "id": origin.start,
        "end": origin.end,
        "uuid": origin.uuid,
        "group": origin.group,
        "kind": letter.kind,
        "error": letter.error,
        "text": letter.text,
        "attempts": letter.attempts,
        "count": letter.count,
        "bytes": len(letter.message.payload or b""),
    }
