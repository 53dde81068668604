"""Compares logd with Apache Kafka under Kafka's own clients, with the same settings: rates, processor time, memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import asdict, define, frozen

from logd.bench.systems.comparison import PeerComparison, PeerPlan
from logd.bench.systems.failover import FailoverBench
from logd.bench.systems.peer import Peer
from logd.bench.systems.places import SystemPlaces
from logd.bench.systems.servers.clusters import KafkaCluster, LogdCluster
from logd.bench.systems.servers.kafka_pair import KafkaByKafkaClients, LogdByKafkaClients

#: The sizes of batches in bytes: Kafka's default, and the largest that both brokers take by default.
BATCH_BYTES = (16 << 10, 1_000_000)
#: Bytes of a record beside its payload, at most.
_BESIDE_BYTES = 10


@define
class KafkaClientsBench:
    """Measures both in turn: one broker of each with acks=1, or clusters of three with acks=all and three replicas.

    See PeerComparison and FailoverBench, which do the work.
    """

    folder: str
    places: SystemPlaces
    messages: int
    size: int
    rounds: int
    tell: Callable[[str], None] = lambda _: None
    clusters: bool = False
    #: Leaders that are killed in each cluster.
    kills: int = 0

    def run(self) -> dict[str, Any]:
        """Return what PeerComparison returns, and under ``ratios`` logd's figures divided by Kafka's.

        Under ``failover`` is, for clusters, the result of FailoverBench.
        """
        batches = tuple(max(each // (self.size + _BESIDE_BYTES), 1) for each in BATCH_BYTES)
        plan = PeerPlan(
            messages=self.messages,
            single_messages=self.messages,
            size=self.size,
            batches=batches,
            rates=(),
            rounds=self.rounds,
            acks=(-1,) if self.clusters else (1,),
            seconds=0,
            warm_messages=0,
        )
        pair: tuple[type[Peer], ...] = (LogdByKafkaClients, KafkaByKafkaClients)
        failovers: list[dict[str, Any]] = []
        if self.clusters:
            pair = (LogdCluster, KafkaCluster)
        result: dict[str, Any] = PeerComparison(self.folder, self.places, plan, pair, self.tell).run()
        if self.clusters and self.kills and not any(kind.missing(self.places) for kind in pair):
            bench = FailoverBench(self.folder, self.places, (LogdCluster, KafkaCluster), self.kills, self.tell)
            failovers = [asdict(each) for each in bench.run()]
        ratios = [each.to_json() for each in compared(result)]
        return {**result, "bench": "kafka", "failover": failovers, "ratios": ratios}


@frozen
class BothBrokers:
    """One figure of both, and logd's divided by Kafka's."""

    what: str
    logd: float
    kafka: float

    def to_json(self) -> dict[str, object]:
        """Return every field by its name, with the ratio."""
        ratio = round(self.logd / self.kafka, 3) if self.kafka else None
        return {"what": self.what, "logd": self.logd, "kafka": self.kafka, "ratio": ratio}


#: The figures of a measurement that are compared, and the words for them.
_FIGURES = {
    "messages_per_second": "messages/s",
    "server_processor_seconds": "broker's processor seconds",
    "server_peak_megabytes": "broker's peak MB",
}
_STARTS = {"seconds": "seconds to the first served request", "idle_megabytes": "MB after the start"}


def compared(result: Mapping[str, Any]) -> list[BothBrokers]:
    """Return each figure that both brokers have."""
    ours, theirs = LogdByKafkaClients.name, KafkaByKafkaClients.name
    found = []
    starts = {each["system"]: each for each in result["starts"]}
    if ours in starts and theirs in starts:
        found += [BothBrokers(words, starts[ours][name], starts[theirs][name]) for name, words in _STARTS.items()]
    figures = {(each["system"], each["client"], each["part"], each["batch"]): each for each in result["figures"]}
    for (system, client, part, batch), one in figures.items():
        other = figures.get((theirs, client, part, batch))
        if system == ours and other is not None:
            head = f"{part}, {client}, {counted_batch(batch)}"
            found += [BothBrokers(f"{head}: {words}", one[name], other[name]) for name, words in _FIGURES.items()]
    return found


def counted_batch(batch: int) -> str:
    """Return words for the messages of a batch."""
    return f"batches of {batch:,}"
