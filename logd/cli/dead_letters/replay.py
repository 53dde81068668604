"""``logd dead-letters replay``: publishes dead letters again; a group's position remembers which."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import click
from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logd.cli.dead_letters.selection import Selection, digest, is_chosen, only_option
from logd.cli.messages.failures import complain_of, complain_of_rest
from logd.cli.messages.gone_topic import check_in_tree
from logd.cli.options import GroupParameter, TopicParameter, json_option, topic_argument, zookeeper_option
from logd.cli.reactor_command import run
from logd.cli.terminal.prompts import agree
from logd.cli.tree_session import tree_at
from logd.client.admin.admin import Admin
from logd.client.admin.lag import find_brokers
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.fetching.losses import LossReporter
from logd.client.consumer.group_stream import GroupStream
from logd.client.dead_letters.letter import MESSAGE, read_letter
from logd.client.producer.producer import Producer
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.registries.offsets import OffsetRegistry
from logd.deferreds.gathering import gather
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError, PartitionLost, UnknownTopic
from logd.interfaces import Clock
from logd.plurals import counted
from logd.protocol.message import Message

GROUP = "dead-letters.replay"
#: Letters under way at a time: what a kill repeats at most, in each partition.
AT_ONCE = 100
#: Seconds between two looks at how far the group is.
LOOK_SECONDS = 0.2
#: Seconds to publish a letter before the replay gives up.
DELIVERY_SECONDS = 30.0


@click.command(short_help="Publish dead letters again.")
@topic_argument
@zookeeper_option
@click.option("--to", type=TopicParameter(), help="Publish to this topic; by default to the one each letter came from.")
@only_option
@click.option(
    "--group",
    type=GroupParameter(),
    help=f"The group whose positions remember what was replayed; by default {GROUP}, with --only one for each choice.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask; scripts need this.")
@json_option
@click.pass_context
def replay(ctx: click.Context, /, **options: Any) -> None:
    """Publish the dead letters in TOPIC again, with the key, time and headers that the messages had.

    They go back to the topic and partition that they came from (by key where there is no such partition), up to the
    end that TOPIC has now. Positions of a group remember what was replayed: a second replay goes on behind it, and one
    that was killed repeats at most what was under way. `logd groups reset` moves them. With --only the letters left out
    stay for other choices, which have groups of their own. Damaged ranges are no messages, and are left out.

    Asks first; without a terminal on standard input, --yes is required.
    """
    if options["to"] == options["topic"]:
        raise click.UsageError("--to is the topic of the dead letters itself: their replay would never end")
    ctx.exit(run(lambda reactor: _replay(reactor, **options)))


@define(eq=False)
class ReplayRun:
    """One run of the command: its clients, the ends to reach, and the counts."""

    admin: Admin
    producer: Producer
    stream: GroupStream
    consumer: Consumer
    to: str | None
    only: Selection
    ends: Mapping[int, int]
    counts: dict[str, int] = field(factory=lambda: dict.fromkeys(("replayed", "left_out", "ranges", "others"), 0))
    _partitions: dict[str, frozenset[int]] = field(factory=dict)

    async def read(self) -> None:
        """Publish letters, and count them as handled, until cancelled."""
        losses = LossReporter()  # of letters that were damaged, or removed before they were read
        try:
            async for batch in self.stream.batches():
                complain_of(losses, batch)
                messages = [each for each in batch.messages if each.id < self.ends.get(batch.partition, 0)]
                await gather(self._publish(message) for message in messages)
                if len(messages) == len(batch.messages):
                    self.stream.handled(batch)
                elif messages:
                    self.stream.handled(messages[-1])
                with suppress(CoordinationError, PartitionLost):  # the next commit, or the next owner, sees to it
                    await self.consumer.commit()
        finally:
            complain_of_rest(losses)

    async def _publish(self, message: Message) -> None:
        try:
            letter = read_letter(message)
        except ValueError:
            self.counts["others"] += 1
            return
        if not is_chosen(letter, self.only):
            self.counts["left_out"] += 1
        elif letter.kind != MESSAGE:
            self.counts["ranges"] += 1
        else:
            topic = letter.origin.topic if self.to is None else self.to
            if topic == message.topic:
                raise LogdError(f"a letter in {topic!r} says that it came from that same topic: give --to, or --only")
            known = await self._known(topic)
            partition = letter.origin.partition if self.to is None and letter.origin.partition in known else None
            await self.producer.send(topic, letter.message, partition=partition)
            self.counts["replayed"] += 1

    async def _known(self, topic: str) -> frozenset[int]:
        found = self._partitions.get(topic)
        if found is None:
            try:
                described = await self.admin.describe(topic)
            except UnknownTopic:
                raise UnknownTopic(
                    f"there is no topic {topic!r}, to which letters go back: create it, or give --to TOPIC"
                ) from None
            found = self._partitions[topic] = frozenset(each.partition for each in described.partitions)
        return found


async def _replay(
    reactor: Any,
    topic: str,
    zookeeper: str,
    to: str | None,
    only: Selection,
    group: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    chosen = digest(only)
    name = group or (f"{GROUP}.{chosen}" if chosen else GROUP)
    async with tree_at(reactor, zookeeper) as tree:
        brokers: Any = await find_brokers(tree)
        admin = Admin(brokers, reactor=reactor)
        try:
            if to is not None:
                await admin.describe(to)  # a topic that is not there is told before anything begins
            ends = await _ends(admin, tree, name, topic)
            counts: dict[str, int] = {}
            if ends.left:
                where = "the topics that they came from" if to is None else to
                if not yes:
                    size = counted(ends.left, "byte")
                    agree(f"Publish the dead letters of {topic} not replayed yet ({size}) to {where}?")
                counts = await _run(reactor, tree, admin, brokers, name, topic, to, only, ends)
            _report(counts, name, as_json)
        finally:
            await admin.close()


class ReplayEnds(NamedTuple):
    """The end of each partition that is not replayed, the uuid of the topic, and the bytes before these ends."""

    uuid: str
    positions: dict[int, int]
    left: int


async def _ends(admin: Admin, tree: ICoordination, group: str, topic: str) -> ReplayEnds:
    """Return the ends that a replay has to reach."""
    described = await admin.describe(topic)
    logs = await admin.describe_logs(topic, [each.partition for each in described.partitions])
    stored = await OffsetRegistry(tree, group).read_all(topic)
    ends, left = {}, 0
    for number, log in logs.items():
        position = (stored[number].position or 0) if number in stored else 0
        begin = max(log.log_start, position)
        if begin < log.visible_end:
            ends[number] = log.visible_end
            left += log.visible_end - begin
    return ReplayEnds(described.uuid, ends, left)


async def _run(
    reactor: Any,
    tree: ICoordination,
    admin: Admin,
    brokers: Any,
    group: str,
    topic: str,
    to: str | None,
    only: Selection,
    ends: ReplayEnds,
) -> dict[str, int]:
    producer = Producer(brokers, reactor=reactor, create_topics=False, delivery_timeout=DELIVERY_SECONDS)
    consumer = Consumer(
        brokers,
        group=group,
        coordination=tree,
        commit="handled",
        on_corrupt="skip",
        decode_messages=AT_ONCE,
        reactor=reactor,
    )
    try:
        (stream,) = consumer.create_message_streams(topic, 1)
        assert isinstance(stream, GroupStream)
        running = ReplayRun(admin, producer, stream, consumer, to, only, ends.positions)
        reading = Deferred.fromCoroutine(running.read())
        looking = Deferred.fromCoroutine(until_there(reactor, tree, group, topic, ends))
        failed: list[BaseException] = []

        def looked(result: object) -> None:
            if isinstance(result, Failure) and not result.check(CancelledError):
                failed.append(result.value or LogdError(result.getErrorMessage()))
            reading.cancel()

        looking.addBoth(looked)
        try:
            await reading
        except CancelledError:
            if not looking.called:  # the command was interrupted
                raise
        finally:
            looking.cancel()
        if failed:
            raise failed[0]
        return running.counts
    finally:
        await consumer.close()
        await producer.close()


async def until_there(clock: Clock, tree: ICoordination, group: str, topic: str, ends: ReplayEnds) -> None:
    """Return once the group's stored positions have reached the ends, whichever member stored them.

    Raises UnknownTopic if the topic is deleted, or made again, before: its positions would never come so far. The tree
    is asked for that, since a broker that has not reached it yet knows no other topics than those that it stores.
    """
    offsets = OffsetRegistry(tree, group)
    while True:
        with suppress(CoordinationError):
            stored = await offsets.read_all(topic)
            reached = {number: each.position or 0 for number, each in stored.items()}
            if all(reached.get(number, 0) >= end for number, end in ends.positions.items()):
                return
        await check_in_tree(tree, topic, ends.uuid, "during the replay: letters not replayed by then are gone")
        await sleep(clock, LOOK_SECONDS)


def _report(counts: dict[str, int], group: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"group": group, "replayed": 0, "left_out": 0, "ranges": 0, "others": 0, **counts}))
        return
    more = [
        counted(counts[name], what)
        for name, what in (("left_out", "other letter"), ("ranges", "damaged range"), ("others", "other message"))
        if counts.get(name)
    ]
    passed = f"; passed {', '.join(more)}" if more else ""
    click.echo(f"replayed {counted(counts.get('replayed', 0), 'dead letter')}{passed}; remembered by group {group}")
