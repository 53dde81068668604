"""Elections in which replicas lead that may lack messages: the loss is shown by position first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click
from attrs import frozen

from logd.cli.cluster.admin_command import described_again
from logd.cli.terminal.prompts import agree
from logd.cli.terminal.tables import show_before_asking
from logd.client.admin.admin import Admin
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError
from logd.leadership import NO_LEADER
from logd.plurals import counted
from logd.protocol.requests.metadata import PartitionMetadata, TopicMetadata
from logd.protocol.requests.replicas.describe_replicas import OFFLINE, DescribeReplicasResponse
from logd.protocol.requests.replicas.most_complete import by_partition, most_complete

#: Seconds between two looks at the leaders.
LOOK_SECONDS = 0.1


@frozen
class UncleanLoss:
    """A partition without a leader, the live replica with the most, and what is known to be lost if that one leads."""

    partition: int
    #: The broker that would lead, NO_LEADER if no live broker has a log of the partition.
    leader: int
    #: The end of its log, and the greatest end that was visible to readers as far as that is known.
    end: int
    known_end: int
    #: The brokers of which any could lead without a loss: those in sync, and the remembered last members.
    complete: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the loss as a JSON object."""
        return {
            "partition": self.partition,
            "leader": self.leader,
            "end": self.end,
            "known_end": self.known_end,
            "lost_bytes": max(self.known_end - self.end, 0),
            "complete": list(self.complete),
        }

    @property
    def text(self) -> str:
        """The loss in words."""
        if self.leader == NO_LEADER:
            return "no live broker has a replica"
        behind = f"what came after position {max(self.end, self.known_end)}"
        if self.known_end > self.end:
            lost = counted(self.known_end - self.end, "byte")
            return f"positions {self.end} to {self.known_end} ({lost}), and {behind}"
        return behind


def losses(
    partitions: Sequence[PartitionMetadata], described: Mapping[int, DescribeReplicasResponse]
) -> list[UncleanLoss]:
    """Return what an unclean election of each partition would lose, by the logs of the live brokers."""
    logs = {broker: by_partition(answer.replicas) for broker, answer in described.items()}
    remembered, found = _last_members(described), []
    for each in partitions:
        most = most_complete(each.partition, each.replicas, logs)
        complete = _complete(each, remembered)
        found.append(UncleanLoss(each.partition, most.broker, most.end, most.known_end, complete))
    return found


def _last_members(described: Mapping[int, DescribeReplicasResponse]) -> dict[int, set[int]]:
    """Return the remembered last members of each partition that has some."""
    found: dict[int, set[int]] = {}
    for answer in described.values():
        for log in answer.replicas:
            if log.last:
                found.setdefault(log.partition, set()).update(log.last)
    return found


def _complete(partition: PartitionMetadata, remembered: Mapping[int, set[int]]) -> tuple[int, ...]:
    """Return the replicas that have everything that readers saw, the in-sync ones first."""
    last = remembered.get(partition.partition, set())
    return (*partition.in_sync, *sorted(last.difference(partition.in_sync)))


def led_offline(
    partitions: Sequence[PartitionMetadata], described: Mapping[int, DescribeReplicasResponse]
) -> list[PartitionMetadata]:
    """Return the partitions whose leader has an offline log: no other replica that has everything can lead now."""
    offline = {
        (broker, log.partition)
        for broker, answer in described.items()
        for log in answer.replicas
        if log.role == OFFLINE
    }
    return [each for each in partitions if (each.leader, each.partition) in offline]


def explain_offline(
    topic: str, partitions: Sequence[PartitionMetadata], described: Mapping[int, DescribeReplicasResponse]
) -> str:
    """Return what the matter is with partitions whose leaders have offline logs, and what an operator can do."""
    remembered, text = _last_members(described), ""
    for each in partitions:
        others = [broker for broker in _complete(each, remembered) if broker != each.leader]
        saved = f"{_named(others, 'or')} would lead without a loss" if others else "no other one has all messages"
        text += f"{topic}-{each.partition}: broker {each.leader} leads, and its log is offline; {saved}. "
    leaders = _named(sorted({each.leader for each in partitions}), "and")
    which = f" -p {partitions[0].partition}" if len(partitions) == 1 else ""
    return (
        f"{text}/health of {leaders} has the reason: a log that can be repaired, or is served again after a restart, "
        f"loses nothing. To give up what only that log has, stop {leaders}, which stays the leader until then, and "
        f"give `logd elect {topic}{which} --unclean` again"
    )


async def elect_uncleanly(
    reactor: Any,
    admin: Admin,
    topic: TopicMetadata,
    partitions: Sequence[PartitionMetadata],
    yes: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Show what would be lost, ask, and have the replicas with the most lead. Raises LogdError.

    Partitions that have a leader are left alone, but if its log is offline LogdError says what is to be done.
    """
    described = await admin.describe_replicas(topic.topic)
    leaderless = [each for each in partitions if each.leader == NO_LEADER and len(each.replicas) > 0]
    offline = led_offline(partitions, described)
    found = losses(leaderless, described)
    if leaderless:
        await _elect(reactor, admin, topic, found, yes, timeout, as_json)
    elif not as_json and not offline:
        click.echo("each of these partitions has a leader")
    if as_json:
        click.echo(json.dumps({"topic": topic.topic, "partitions": [each.to_json() for each in found]}))
    if offline:
        raise LogdError(explain_offline(topic.topic, offline, described))


async def _elect(
    reactor: Any,
    admin: Admin,
    topic: TopicMetadata,
    found: Sequence[UncleanLoss],
    yes: bool,
    timeout: float,
    as_json: bool,
) -> None:
    if not (as_json and yes):
        rows = [(each.partition, each.leader, each.end, each.text, _listed(each.complete)) for each in found]
        show_before_asking(
            ["partition", "would lead", "its log ends at", "would be lost", "without loss"], rows, as_json
        )
    able = [each for each in found if each.leader != NO_LEADER]
    if not able:
        raise LogdError(
            "no live broker has a log of these partitions that it can serve: start another one that stores them; where "
            "a live one stores them, its /health says why its log is offline. If the disks of all replicas are lost "
            f"for good, `logd repair --broker HOST:PORT {topic.topic} PARTITION --accept-loss` begins one again"
        )
    if not yes:
        agree(
            f"Give up what is lost of {counted(len(able), 'partition')} of topic {topic.topic}? Starting one of the "
            "brokers under 'without loss' would lose nothing."
        )
    wanted = {each.partition: each.leader for each in able}
    await admin.elect(topic.topic, wanted, unclean=True, uuid=topic.uuid)
    until = reactor.seconds() + timeout
    while True:
        now = {each.partition: each for each in (await described_again(admin, topic)).partitions}
        left = [number for number in wanted if now[number].leader == NO_LEADER]
        if not left:
            break
        if reactor.seconds() > until:
            named = _named(sorted({wanted[number] for number in left}), "and")
            raise LogdError(
                f"{counted(len(left), 'partition')} of topic {topic.topic} without a leader yet: the controller goes "
                f"on trying until {named} can lead, or `logd elect {topic.topic} --cancel` takes the election back"
            )
        await sleep(reactor, LOOK_SECONDS)
    if not as_json:
        for number in sorted(wanted):
            click.echo(f"{topic.topic}-{number} is led by broker {now[number].leader}")


def _named(brokers: Sequence[int], word: str) -> str:
    """Return brokers in words, such as ``broker 1, 2 or 3``."""
    *first, last = map(str, brokers)
    return f"broker {', '.join(first)} {word} {last}" if first else f"broker {last}"


def _listed(brokers: Sequence[int]) -> str:
    return " ".join(map(str, brokers))
