"""The view that a client has of a cluster: where the brokers are, and who leads which partition, as last read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from attrs import define, field, frozen

from logd.clientcore.partition_numbers import in_words, is_among
from logd.errors import PartitionOffline, UnknownTopic, WireError, WrongPartition, error_for_code
from logd.protocol.requests.metadata import MetadataResponse, TopicMetadata

#: A broker's address, in the form that the client connects to.
A = TypeVar("A")


@frozen
class TopicView:
    """A topic as the brokers described it at ``read_at`` (seconds of the client's clock)."""

    name: str
    uuid: str
    #: All partitions, ascending.
    partitions: tuple[int, ...]
    #: The broker that leads each partition; a partition without a leader is not in it.
    leaders: dict[int, int]
    read_at: float
    #: The broker of each partition that is offline there: such a partition has no leader, but a reason to ask for.
    offline: dict[int, int] = field(factory=dict)
    #: The partitions that have a leader, ascending.
    available: tuple[int, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "available", tuple(p for p in self.partitions if p in self.leaders))


@define(eq=False)
class ClusterView(Generic[A]):
    """What was last read of the brokers and of each topic. No I/O: the client reads, and tells it of the answers."""

    #: The address to connect to, of a broker that advertises a host and a port.
    address_of: Callable[[str, int], A]
    _addresses: dict[int, A] = field(factory=dict, init=False)
    _topics: dict[str, TopicView] = field(factory=dict, init=False)

    @property
    def addresses(self) -> Collection[A]:
        """The addresses of the brokers that were live."""
        return self._addresses.values()

    def known(self, topic: str) -> TopicView | None:
        """Return what was last read about the topic."""
        return self._topics.get(topic)

    def forget(self, topic: str) -> None:
        """Know nothing of a topic until it is read again."""
        self._topics.pop(topic, None)

    def forget_all(self) -> None:
        """Know nothing of any topic; the brokers' addresses stay."""
        self._topics.clear()

    def read(self, response: MetadataResponse, now: float) -> None:
        """Take what a broker has answered at ``now``; a topic in error stays as it was known."""
        self._addresses = {broker.id: self.address_of(broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            if topic.error == 0:
                self._topics[topic.topic] = self._view(topic, now)

    def leader(self, topic: str, partition: int) -> A:
        """Return the address of the partition's leader.

        Raises WrongPartition when the topic has no such partition or it has no leader, PartitionOffline when its broker
        does not serve it, UnknownTopic when nothing was read.
        """
        view = self._topics.get(topic)
        if view is not None and partition in view.offline:
            raise PartitionOffline(
                f"topic {topic!r}, partition {partition} is offline on broker {view.offline[partition]}; "
                f"`logd topics describe {topic}` says why"
            )
        return self.keeper(topic, partition)

    def keeper(self, topic: str, partition: int) -> A:
        """Return the address of the broker that leads the partition, or would if it were not offline there.

        Raises as ``leader`` does, but for PartitionOffline.
        """
        view = self._topics.get(topic)
        if view is None:
            raise UnknownTopic(f"nothing is known yet about topic {topic!r}")
        address = self._addresses.get(view.leaders.get(partition, view.offline.get(partition, -1)))
        if address is None:
            why = f"the topic has partitions {in_words(view.partitions)}"
            if is_among(partition, view.partitions):
                why = "it has no leader now, since no broker that stores it is live"
            raise WrongPartition(f"topic {topic!r}, partition {partition}: {why}")
        return address

    def _view(self, topic: TopicMetadata, now: float) -> TopicView:
        return TopicView(
            name=topic.topic,
            uuid=topic.uuid,
            partitions=tuple(sorted(each.partition for each in topic.partitions)),
            leaders={p.partition: p.leader for p in topic.partitions if p.error == 0 and p.leader in self._addresses},
            read_at=now,
            offline={
                p.partition: p.leader
                for p in topic.partitions
                if p.error == PartitionOffline.code and p.leader in self._addresses
            },
        )


def described(response: MetadataResponse, topic: str, brokers: str = "") -> TopicMetadata:
    """Return what a response of ``brokers`` says of a topic.

    Raises UnknownTopic where that is nothing, or the error that it names.
    """
    found = next((each for each in response.topics if each.topic == topic), None)
    if found is None:
        raise UnknownTopic(f"the broker said nothing about topic {topic!r}")
    if found.error:
        raise topic_error(topic, found.error, brokers)
    return found


def topic_error(topic: str, code: int, brokers: str = "") -> WireError:
    """Return the error of a topic, in words that name it and, for a topic that is not there, who was asked."""
    if code != UnknownTopic.code:
        return error_for_code(code, f"topic {topic!r}: {error_for_code(code)}")
    where = f" at {brokers}; 'logd topics list' names those that there are" if brokers else ""
    return UnknownTopic(f"there is no topic {topic!r}{where}")
