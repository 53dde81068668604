"""A client's view of a cluster, as last read: the brokers' addresses, and the leader of each partition."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from attrs import define, field, frozen

from logd.clientcore.partition_numbers import in_words, is_among
from logd.config.log import ANY_FORMAT
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
    #: The broker that leads each partition; partitions without a leader are missing.
    leaders: dict[int, int]
    read_at: float
    #: The broker of each partition that is offline there: it does not lead, but knows the reason.
    offline: dict[int, int] = field(factory=dict)
    #: The leader epoch of each partition; 0 for one that is not replicated.
    epochs: dict[int, int] = field(factory=dict)
    #: The setting message.format; "any" also from brokers that do not know it.
    message_format: str = ANY_FORMAT
    #: The partitions that have a leader, ascending.
    available: tuple[int, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "available", tuple(p for p in self.partitions if p in self.leaders))

    def is_later(self, other: TopicView, partition: int) -> bool:
        """Return whether the partition's leader epoch is a later one than in ``other``."""
        return self.epochs.get(partition, 0) > other.epochs.get(partition, 0)


@define(eq=False)
class ClusterView(Generic[A]):
    """The brokers and topics as last read. No I/O: the client reads metadata and passes the answers on."""

    #: Returns the address to connect to, for a broker that advertises a host and a port.
    address_of: Callable[[str, int], A]
    #: The cluster's uuid, empty while no broker has named it.
    uuid: str = field(default="", init=False)
    _addresses: dict[int, A] = field(factory=dict, init=False)
    #: The last address of each broker, also of those that are not live now.
    _last: dict[int, A] = field(factory=dict, init=False)
    _topics: dict[str, TopicView] = field(factory=dict, init=False)
    #: The time of the last answer that was an error, for topics that were known before: deleted ones, for instance.
    _refused: dict[str, float] = field(factory=dict, init=False)

    @property
    def addresses(self) -> Collection[A]:
        """Return the addresses of the brokers that were live."""
        return self._addresses.values()

    def known(self, topic: str) -> TopicView | None:
        """Return the topic's metadata as last read."""
        return self._topics.get(topic)

    def last_answer(self, topic: str) -> float | None:
        """Return the time of the last answer about a topic that is known, be it an error; None if it is not known."""
        view = self._topics.get(topic)
        return None if view is None else self._refused.get(topic, view.read_at)

    def forget(self, topic: str) -> None:
        """Forget a topic until it is read again."""
        self._topics.pop(topic, None)
        self._refused.pop(topic, None)

    def moved(self) -> list[A]:
        """Return the addresses that brokers have left for others since the last call, and that no other has now."""
        left = [before for each, before in self._last.items() if self._addresses.get(each, before) != before]
        self._last |= self._addresses
        return [each for each in left if each not in self._last.values()]

    def forget_all(self) -> None:
        """Forget all topics; the brokers' addresses stay."""
        self._topics.clear()
        self._refused.clear()

    def read(self, response: MetadataResponse, now: float) -> list[str]:
        """Store a broker's answer of time ``now``; a topic in error stays as it was.

        Return the topics that have other partitions, or another message.format, than was known.
        """
        self.uuid = response.cluster or self.uuid
        self._addresses = {broker.id: self.address_of(broker.host, broker.port) for broker in response.brokers}
        changed = []
        for topic in response.topics:
            if topic.error == 0:
                known, view = self._topics.get(topic.topic), self._view(topic, now)
                self._topics[topic.topic] = view
                self._refused.pop(topic.topic, None)
                if known is None or (known.partitions, known.message_format) != (view.partitions, view.message_format):
                    changed.append(topic.topic)
            elif topic.topic in self._topics:
                self._refused[topic.topic] = now
        return changed

    def leader(self, topic: str, partition: int) -> A:
        """Return the address of the partition's leader.

        Raises WrongPartition when the topic has no such partition or the partition no leader, PartitionOffline when its
        broker does not serve it, UnknownTopic when no metadata was read.
        """
        view = self._topics.get(topic)
        if view is not None and partition in view.offline:
            raise PartitionOffline(
                f"topic {topic!r}, partition {partition} is offline on broker {view.offline[partition]}; "
                f"`logd topics describe {topic}` says why"
            )
        return self.keeper(topic, partition)

    def keeper(self, topic: str, partition: int) -> A:
        """Return the address of the broker that leads the partition, or would if the partition were not offline there.

        Raises as ``leader`` does, but for PartitionOffline.
        """
        view = self._topics.get(topic)
        if view is None:
            raise UnknownTopic(f"nothing is known yet about topic {topic!r}")
        address = self._addresses.get(view.leaders.get(partition, view.offline.get(partition, -1)))
        if address is None:
            why = f"the topic has partitions {in_words(view.partitions)}"
            if is_among(partition, view.partitions):
                why = (
                    "it has no leader now, since no broker that may lead it is live: "
                    f"`logd topics describe {topic}` shows its replicas"
                )
            raise WrongPartition(f"topic {topic!r}, partition {partition}: {why}")
        return address

    def has_left(self, address: A, partitions: Collection[tuple[str, int]], response: MetadataResponse) -> bool:
        """Return whether the broker at ``address`` leads none of the partitions by ``response``, and another one some.

        An answer that is older than what is known, by the leader epochs, says nothing. The response is not stored.
        """
        addresses = {broker.id: self.address_of(broker.host, broker.port) for broker in response.brokers}
        moved = False
        for topic in response.topics:
            known = self._topics.get(topic.topic)
            for each in topic.partitions:
                if (topic.topic, each.partition) not in partitions:
                    continue
                leader = addresses.get(each.leader)
                if leader == address:
                    return False
                epoch = 0 if known is None else known.epochs.get(each.partition, 0)
                if leader is not None and each.error == 0 and each.leader_epoch >= epoch:
                    moved = True
        return moved

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
            epochs={p.partition: p.leader_epoch for p in topic.partitions},
            message_format=topic.message_format,
        )


def described(response: MetadataResponse, topic: str, brokers: str = "") -> TopicMetadata:
    """Return a topic's metadata from a response of ``brokers``.

    Raises UnknownTopic when the topic is missing, or the error that its entry has.
    """
    found = next((each for each in response.topics if each.topic == topic), None)
    if found is None:
        raise UnknownTopic(f"the broker said nothing about topic {topic!r}")
    if found.error:
        raise topic_error(topic, found.error, brokers)
    return found


def topic_error(topic: str, code: int, brokers: str = "") -> WireError:
    """Return the error of a topic; the text names the topic and, for a missing topic, the brokers asked."""
    if code != UnknownTopic.code:
        return error_for_code(code, f"topic {topic!r}: {error_for_code(code)}")
    where = f" at {brokers}; 'logd topics list' names those that there are" if brokers else ""
    return UnknownTopic(f"there is no topic {topic!r}{where}")
