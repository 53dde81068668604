"""Counts the attributes of the project's classes, so that one that has grown a second subject is noticed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from attrs import frozen

from tests.layering import Module

#: Attributes above which a class is looked at: is a second subject in it? Those that have a good answer stand below.
MANY_ATTRIBUTES = 15
#: The classes above, each with its number of attributes, which must not grow, and the reason for them.
LARGE_CLASSES: dict[str, tuple[int, str]] = {
    "logd.audit.event.AuditEvent": (19, "the fields of one message"),
    "logd.audit.verdicts.Verdict": (16, "the columns of one line"),
    "logd.bench.rebalance_cost.CountingHost": (19, "a TreeHost of 15, which counts what it is asked for"),
    "logd.bench.partitions.replication.ReplicationRates": (18, "the columns of one line"),
    "logd.broker.broker.Broker": (32, "the parts of a broker, wired together: no state of its own but five fields"),
    "logd.broker.kafka.session.KafkaSession": (16, "the handlers of one connection, wired together"),
    "logd.broker.replication.control.controller.Controller": (20, "one claim, and the queue of its work"),
    "logd.broker.replication.leader.LeaderRole": (16, "one leadership; each follower has a record of its own"),
    "logd.broker.replication.replica_fetcher.ReplicaFetcher": (16, "one connection, and the queues of what it tells"),
    "logd.broker.replication.replica_manager.ReplicaManager": (20, "what replicas need, handed through"),
    "logd.broker.requests.produce.ProduceRequests": (
        17,
        "the state of one producing connection; requests have their own",
    ),
    "logd.broker.requests.core.BrokerCore": (29, "the parts of a broker that the handlers see"),
    "logd.broker.topics.reconciler.TopicReconciler": (19, "three queues of one worker; each part has its own class"),
    "logd.client.consumer.group.group_stream_state.GroupStreamState": (26, "a StreamState of 18; 8 of its own"),
    "logd.client.consumer.group.reader.Group": (17, "the settings of a group, and the streams that they apply to"),
    "logd.client.consumer.fetching.partition_fetch.PartitionFetch": (17, "one state, whose parts have their classes"),
    "logd.client.producer.batches.batch.ProducerBatch": (
        16,
        "one batch: messages, their sends, and the bytes once encoded",
    ),
    "logd.client.settings.ConsumerSettings": (16, "one field for each setting"),
    "logd.client.settings.ProducerSettings": (16, "one field for each setting"),
    "logd.client.consumer.stream_state.StreamState": (18, "one stream; its partitions have states of their own"),
    "logd.collect.collector.Collector": (17, "one process, all parts of which end together"),
    "logd.collect.source.SourceFile": (21, "one row of what is known of a file; no behaviour but sums of fields"),
    "logd.config.broker.BrokerSettings": (42, "one field for each setting"),
    "logd.coord.server.connection.ServerConnection": (17, "one connection, from the handshake to the end"),
    "logd.coord.server.server.CoordinationServer": (16, "the parts of a server, wired together"),
    "logd.coord.server.storage.journal.Journal": (18, "one queue and its worker; the files are ChangeWriter's"),
    "logd.mirror.mirror.Mirror": (20, "the parts of a mirror, wired together, and its partitions, which begin and end"),
    "logd.mirror.partition_copy.PartitionCopy": (16, "one tenure of a partition: its sets, and how far they have come"),
    "logd.mirror.settings.MirrorSettings": (16, "one field for each setting"),
    "logd.log.damage.walk.SegmentWalk": (18, "an iterator's place in a segment, and what it has counted"),
    "logd.log.flusher.Flusher": (17, "the queues of one schedule, and who is told of it"),
    "logd.log.partition.PartitionLog": (25, "the ends of a log move together; files, waiters and flushes are parts"),
    "logd.net.server.Connection": (22, "one connection; backlog, output, pauses and limits are parts"),
    "logd.testing.memory.broker.MemoryBroker": (16, "the parts of a machine with a broker, for tests to reach"),
    "logd.log.store.log_store.LogStore": (17, "the parts of a data directory, and the logs in it"),
    "logd.testing.memory.files.MemoryFiles": (20, "a disk, and the switches by which a test breaks it"),
    "logd.testing.memory.transport.MemoryTransport": (21, "a TCP connection's two directions, in Twisted's names"),
    "logd.spark.importer.settings.ImportSettings": (20, "one field for each setting"),
}

_RECORD_DECORATORS = {"define", "frozen", "mutable"}


@frozen
class ClassAttributes:
    """The attributes that a class defines itself, and the full names of its bases, known or not."""

    own: frozenset[str]
    bases: tuple[str, ...]


def large_classes(modules: Iterable[Module], most: int = MANY_ATTRIBUTES) -> dict[str, int]:
    """Return the classes with more than ``most`` attributes, those of their bases included, and how many they have."""
    classes = {name: found for module in modules for name, found in _classes(module)}
    counts = {name: len(_with_bases(name, classes)) for name in classes}
    return {name: count for name, count in counts.items() if count > most}


def attribute_problems(found: dict[str, int], allowed: dict[str, tuple[int, str]]) -> list[str]:
    """Return one sentence for each class that is larger than allowed, or smaller than the table says."""
    problems = []
    for name, count in sorted(found.items()):
        if name not in allowed:
            problems.append(f"{name} has {count} attributes: divide it, or say in LARGE_CLASSES why it is one thing")
        elif count > allowed[name][0]:
            problems.append(f"{name} has grown from {allowed[name][0]} to {count} attributes: divide it")
    for name, (count, _) in sorted(allowed.items()):
        if found.get(name, 0) < count:
            problems.append(f"{name} has {found.get(name, 'few')} attributes: say so in LARGE_CLASSES, or take it out")
    return problems


def _classes(module: Module) -> Iterator[tuple[str, ClassAttributes]]:
    tree = ast.parse(module.text)
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).split("[")[0] for base in node.bases]
            full = tuple(imported.get(base, f"{module.name}.{base}") for base in bases)
            yield f"{module.name}.{node.name}", ClassAttributes(frozenset(_own(node)), full)


def _own(node: ast.ClassDef) -> Iterator[str]:
    """Yield the fields of a record, and what methods assign to ``self``."""
    decorators = {ast.unparse(each).split("(")[0].rpartition(".")[2] for each in node.decorator_list}
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)] if decorators & _RECORD_DECORATORS else []
    for each in fields:
        if isinstance(each.target, ast.Name) and "ClassVar" not in ast.unparse(each.annotation):
            yield each.target.id
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and ast.unparse(inner.value) == "self":
            yield inner.attr


def _with_bases(name: str, classes: dict[str, ClassAttributes]) -> frozenset[str]:
    found = classes.get(name)
    return frozenset() if found is None else found.own.union(*[_with_bases(base, classes) for base in found.bases])
