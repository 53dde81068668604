"""The command tools of Apache Kafka, in Java, each in the ways that people use it, held against the broker."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from logd.testing import KafkaBroker, KafkaRecord
from tests.kafka_clients.group import PATIENCE
from tests.kafka_clients.having import Had
from tests.kafka_clients.outcomes import Work, check, outcomes

_CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
#: Stands for the broker's address among the words of a command.
AT = "AT"
_TOPIC = "java-commands"
_GROUP = "java-commands-group"
_LINES = [f"k{n}:line {n}" for n in range(20)]


class Tools:
    """One Java that runs the tools, as a context manager."""

    def __init__(self, had: Had, bootstrap: str, stored: Callable[[str], list[KafkaRecord]] | None = None) -> None:
        """``stored(topic)``: the topic's records by the native client."""
        self._had = had
        self._bootstrap = bootstrap
        self._stored = stored

    def __enter__(self) -> Tools:
        self._process = self._had.start()
        self._folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def run(self, tool: str, *words: object, given: str = "", status: int = 0) -> str:
        """Run one over the input ``given``; return its output. Raises AssertionError unless it ends with the status.

        The address of the broker stands where ``AT`` is among the words, or else before them.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        at = self._bootstrap
        all_words = [at if each == AT else str(each) for each in words]
        if AT not in words:
            all_words = ["--bootstrap-server", at, *all_words]
        asked = {"tool": _CLASSES[tool], "words": all_words, "input": given}
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline() or '{"status": "the program has ended", "output": ""}')
        text = f"{tool} {' '.join(map(str, words))}: {answer['status']}: {answer['output'][-300:]}"
        assert answer["status"] == status, text
        output: str = answer["output"]
        return output

    def file(self, name: str, text: str) -> Path:
        """Write a file for a tool."""
        path = Path(self._folder.name) / name
        path.write_text(text, encoding="ascii")
        return path

    def stored(self) -> list[KafkaRecord]:
        """Return the records of the topic by the native client."""
        assert self._stored is not None
        return self._stored(_TOPIC)


def _has(output: str, *texts: str) -> None:
    """Raise AssertionError unless each text is in the output."""
    missing = [each for each in texts if each not in output]
    assert not missing, f"{missing} not in {output[-300:]}"


def topics(tools: Tools) -> None:
    """Create, describe, list, alter."""
    create = ("--create", "--topic", _TOPIC, "--partitions", 2, "--replication-factor", 1)
    _has(tools.run("kafka-topics", *create, "--config", "retention.ms=3600000"), f"Created topic {_TOPIC}.")
    _has(tools.run("kafka-topics", *create, status=1), f"topic '{_TOPIC}' exists already")
    tools.run("kafka-topics", *create, "--if-not-exists")
    described = tools.run("kafka-topics", "--describe", "--topic", _TOPIC)
    _has(described, "PartitionCount: 2", "retention.ms=3600000", "TopicId: ")
    assert _TOPIC in tools.run("kafka-topics", "--list").split()
    tools.run("kafka-topics", "--alter", "--topic", _TOPIC, "--partitions", 3)
    described = tools.run("kafka-topics", "--describe", "--topic", _TOPIC)
    _has(described, "PartitionCount: 3", "Partition: 2\tLeader: 0\tReplicas: 0\tIsr: 0")
    fewer = tools.run("kafka-topics", "--alter", "--topic", _TOPIC, "--partitions", 1, status=1)
    _has(fewer, "are no more than that")
    _has(tools.run("kafka-topics", "--describe", "--topics-with-overrides"), _TOPIC)
    for each in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        check((each, tools.run("kafka-topics", "--describe", each)), (each, ""))
    _has(tools.run("kafka-topics", "--describe", "--topic", "none-of-these", status=1), "does not exist as expected")
    invalid = ("--create", "--topic", "in valid", "--partitions", 1)
    _has(tools.run("kafka-topics", *invalid, status=1), "in valid")
    placed = f"{_TOPIC}-placed"
    tools.run("kafka-topics", "--create", "--topic", placed, "--replica-assignment", "0,0")
    _has(tools.run("kafka-topics", "--describe", "--topic", placed), "PartitionCount: 2")
    tools.run("kafka-topics", "--delete", "--topic", placed)


def settings(tools: Tools) -> None:
    """Describe and alter those of a topic; describe those of the broker."""
    topic = ("--entity-type", "topics", "--entity-name", _TOPIC)
    _has(tools.run("kafka-configs", "--describe", *topic), "retention.ms=3600000")
    added = "retention.ms=7200000,cleanup.policy=[compact,delete]"
    _has(tools.run("kafka-configs", "--alter", *topic, "--add-config", added), "Completed updating config")
    _has(tools.run("kafka-configs", "--describe", *topic), "retention.ms=7200000", "cleanup.policy=compact,delete")
    tools.run("kafka-configs", "--alter", *topic, "--delete-config", "cleanup.policy")
    described = tools.run("kafka-configs", "--describe", *topic)
    assert "cleanup.policy" not in described, described
    every = tools.run("kafka-configs", "--describe", "--all", *topic)
    _has(every, "cleanup.policy=delete", "max.message.bytes=", "min.insync.replicas=1")
    wrong = ("--alter", *topic, "--add-config", "retention.msec=1")
    _has(tools.run("kafka-configs", *wrong, status=1), "retention.msec")
    broker = ("--entity-type", "brokers", "--entity-name", 0)
    _has(tools.run("kafka-configs", "--describe", "--all", *broker), "num.partitions=1", "log.retention.ms=")
    tools.run("kafka-configs", "--describe", "--entity-type", "brokers")
    changed = tools.run("kafka-configs", "--alter", *broker, "--add-config", "log.retention.ms=1000", status=1)
    _has(changed, "a broker's settings are in its file and its options")
    tools.run("kafka-configs", "--describe", "--entity-type", "users")


def console(tools: Tools) -> None:
    """Produce lines with keys, and consume them in a group."""
    keys = ("--property", "parse.key=true", "--property", "key.separator=:")
    tools.run("kafka-console-producer", "--topic", _TOPIC, *keys, given="".join(f"{line}\n" for line in _LINES))
    pairs = sorted(f"{(each.key or b'').decode()}:{(each.value or b'').decode()}" for each in tools.stored())
    check(pairs, sorted(_LINES))
    shown = ("--property", "print.key=true", "--property", "key.separator=:", "--property", "print.partition=true")
    much = ("--from-beginning", "--max-messages", len(_LINES), "--timeout-ms", 30000)
    output = tools.run("kafka-console-consumer", "--topic", _TOPIC, "--group", _GROUP, *shown, *much)
    found = sorted(line for line in output.splitlines() if line.startswith("Partition:"))
    check(found, sorted(f"Partition:{each.partition}:{_text(each)}" for each in tools.stored()))


def _text(record: KafkaRecord) -> str:
    return f"{(record.key or b'').decode()}:{(record.value or b'').decode()}"


def _ends(tools: Tools) -> dict[int, int]:
    """Return the end of each partition that has records."""
    return {each.partition: each.offset + 1 for each in tools.stored()}


def offsets(tools: Tools) -> None:
    """The ends, the starts, by a time and by the latest time."""
    stored = tools.stored()

    def found(*words: object) -> dict[int, int]:
        lines = tools.run("kafka-get-offsets", "--topic", _TOPIC, *words).split()
        return {int(line.split(":")[1]): int(line.split(":")[2]) for line in lines if line.split(":")[2]}

    check(found(), dict.fromkeys(range(3), 0) | _ends(tools))
    check(found("--time", "earliest"), dict.fromkeys(range(3), 0))
    check(found("--time", "earliest-local"), dict.fromkeys(range(3), 0))
    check(found("--time", "latest-tiered"), {})
    firsts: dict[int, int] = {}
    latest: dict[int, tuple[int, int]] = {}
    for each in stored:
        firsts.setdefault(each.partition, each.offset)
        latest[each.partition] = max(latest.get(each.partition, (0, 0)), (each.timestamp or 0, -each.offset))
    by_time = found("--time", min(each.timestamp or 0 for each in stored))
    check({partition: by_time[partition] for partition in firsts}, firsts)
    newest = found("--time", "max-timestamp")
    check({partition: newest[partition] for partition in latest}, {each: -latest[each][1] for each in latest})


def _rows(output: str) -> list[list[str]]:
    """Return the rows of a table about the group."""
    return [line.split() for line in output.splitlines() if line.startswith(_GROUP)]


def groups(tools: Tools) -> None:
    """List, describe, reset, export, delete."""
    assert _GROUP in tools.run("kafka-consumer-groups", "--list").split()
    _has(tools.run("kafka-consumer-groups", "--list", "--state", "empty"), _GROUP)
    _has(tools.run("kafka-groups", "--list"), _GROUP)
    group = ("--group", _GROUP)
    ends = {str(partition): str(end) for partition, end in _ends(tools).items()}
    output = tools.run("kafka-consumer-groups", "--describe", *group)
    # GROUP, TOPIC, PARTITION, CURRENT-OFFSET, LOG-END-OFFSET, LAG
    found = {row[2]: (row[3], row[5]) for row in _rows(output) if row[2] in ends}
    check(found, {each: (end, "0") for each, end in ends.items()})
    (state,) = _rows(tools.run("kafka-consumer-groups", "--describe", *group, "--state"))
    check((state[-2:]), ["Empty", "0"])
    _has(tools.run("kafka-consumer-groups", "--describe", *group, "--members"), "has no active members")
    check(len(_rows(tools.run("kafka-consumer-groups", "--describe", "--all-groups"))), len(_rows(output)))
    reset = ("--reset-offsets", *group, "--topic", _TOPIC)

    def became(*words: object) -> dict[str, str]:
        found = _rows(tools.run("kafka-consumer-groups", *reset, *words))
        return {row[2]: row[3] for row in found if row[2] in ends}

    def committed() -> dict[str, str]:
        found = _rows(tools.run("kafka-consumer-groups", "--describe", *group))
        return {row[2]: row[3] for row in found if row[2] in ends}

    begin = dict.fromkeys(ends, "0")
    check(became("--to-earliest", "--dry-run"), begin)
    check(committed(), ends)
    check(became("--to-earliest", "--execute"), begin)
    check(committed(), begin)
    check(became("--to-latest", "--execute"), ends)
    check(became("--shift-by", -1, "--execute"), {each: str(int(end) - 1) for each, end in ends.items()})
    check(became("--by-duration", "P1D", "--execute"), _first(tools))
    check(became("--to-datetime", "2020-01-01T00:00:00.000", "--execute"), _first(tools))
    exported = tools.run("kafka-consumer-groups", *reset, "--to-current", "--export", "--dry-run")
    path = tools.file("positions.csv", "".join(f"{line}\n" for line in exported.splitlines() if line.count(",") == 2))
    check(became("--from-file", path, "--execute"), _first(tools))
    check(committed(), _first(tools))
    tools.run("kafka-streams-application-reset", "--application-id", _GROUP, "--input-topics", _TOPIC)
    check(committed(), begin)
    deleted = tools.run("kafka-consumer-groups", "--delete-offsets", *group, "--topic", _TOPIC)
    _has(deleted, "Request succeed")
    _has(tools.run("kafka-consumer-groups", "--delete", *group), "Deletion of requested consumer groups")
    assert _GROUP not in tools.run("kafka-consumer-groups", "--list").split()
    _has(tools.run("kafka-consumer-groups", "--describe", *group), f"Consumer group '{_GROUP}' does not exist")


def _first(tools: Tools) -> dict[str, str]:
    """Return the offset of the first record of each partition that has any."""
    found: dict[str, str] = {}
    for each in tools.stored():
        found.setdefault(str(each.partition), str(each.offset))
    return found


def records(tools: Tools) -> None:
    """Delete the first ones of a partition; the bytes of the logs."""
    stored = [each for each in tools.stored() if each.partition == tools.stored()[0].partition]
    partition, before = stored[0].partition, stored[2].offset
    described = tools.run("kafka-log-dirs", "--describe", "--topic-list", _TOPIC)
    folders = json.loads(next(line for line in described.splitlines() if line.startswith("{")))["brokers"][0]["logDirs"]
    sizes = {each["partition"]: each["size"] for each in folders[0]["partitions"]}
    check(sizes, {f"{_TOPIC}-{each}": _ends(tools).get(each, 0) for each in range(3)})
    wanted = {"partitions": [{"topic": _TOPIC, "partition": partition, "offset": before}], "version": 1}
    path = tools.file("delete.json", json.dumps(wanted))
    _has(tools.run("kafka-delete-records", "--offset-json-file", path), f"low_watermark: {before}")
    left = [each.offset for each in tools.stored() if each.partition == partition]
    check(left, [each.offset for each in stored[2:]])
    starts = tools.run("kafka-get-offsets", "--topic", _TOPIC, "--time", "earliest").split()
    assert f"{_TOPIC}:{partition}:{before}" in starts, starts


def cluster(tools: Tools) -> None:
    """The cluster, its leaders and its rules; the refusal of what there is not."""
    versions = tools.run("kafka-broker-api-versions")
    _has(versions, "Produce(0): 0 to 8", "DescribeTopicPartitions(75): UNSUPPORTED")
    _has(tools.run("kafka-cluster", "cluster-id", "--bootstrap-server", AT), "Cluster ID: ")
    election = ("--election-type", "preferred", "--topic", _TOPIC, "--partition", 0)
    _has(tools.run("kafka-leader-election", *election), f"Valid replica already elected for partitions {_TOPIC}-0")
    tools.run("kafka-acls", "--list")
    tools.run("kafka-features", "describe")
    _has(tools.run("kafka-transactions", "list", status=1), "LIST_TRANSACTIONS")
    tools.run("kafka-metadata-quorum", "describe", "--status", status=1)
    tools.run("kafka-e2e-latency", AT, f"{_TOPIC}-latency", 20, "all", 100)


def reassignments(tools: Tools) -> None:
    """Propose one, execute it, verify it: with a single broker nothing moves."""
    _has(tools.run("kafka-reassign-partitions", "--list"), "No partition reassignments found.")
    wanted = {"topics": [{"topic": _TOPIC}], "version": 1}
    path = tools.file("topics.json", json.dumps(wanted))
    proposed = ("--generate", "--broker-list", 0, "--topics-to-move-json-file", path)
    output = tools.run("kafka-reassign-partitions", *proposed)
    plan = tools.file("plan.json", [line for line in output.splitlines() if line.startswith("{")][-1])
    executed = tools.run("kafka-reassign-partitions", "--execute", "--reassignment-json-file", plan)
    _has(executed, "Successfully started partition reassignments")
    verified = tools.run("kafka-reassign-partitions", "--verify", "--reassignment-json-file", plan)
    _has(verified, f"Reassignment of partition {_TOPIC}-0 is completed.")


def check_replicated(had: Had, bootstrap: str, without_leader: Callable[[str], AbstractContextManager[None]]) -> None:
    """A topic of three replicas whose leader is killed; elections, and a reassignment that moves something.

    ``without_leader(topic)`` is the time in which its leader is dead. Raises AssertionError.
    """
    topic = "java-replicated"
    with Tools(had, bootstrap) as tools:

        def row() -> dict[str, str]:
            described = tools.run("kafka-topics", "--describe", "--topic", topic).splitlines()[-1]
            return {name.strip(): value for name, _, value in (each.partition(": ") for each in described.split("\t"))}

        def missing() -> bool:
            return topic in tools.run("kafka-topics", "--describe", "--under-replicated-partitions")

        create = ("--create", "--topic", topic, "--partitions", 1, "--replication-factor", 3)
        tools.run("kafka-topics", *create, "--config", "min.insync.replicas=2")
        _until(lambda: not missing(), "three replicas in sync")
        first = row()
        replicas = first["Replicas"].split(",")
        with without_leader(topic):
            _until(missing, "an under-replicated partition")
            _until(lambda: row()["Leader"] not in ("none", first["Leader"]), "another leader")
            check(missing(), True)
            keys = ("--topic", topic, "--producer-property", "acks=all")
            tools.run("kafka-console-producer", *keys, given="a line\n" * 100)
        check(missing(), False)
        tools.run("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
        check(row()["Leader"], replicas[0])
        moved = [int(each) for each in reversed(replicas[1:])]
        wanted = {"partitions": [{"topic": topic, "partition": 0, "replicas": moved}], "version": 1}
        plan = ("--reassignment-json-file", tools.file("plan.json", json.dumps(wanted)))
        tools.run("kafka-reassign-partitions", "--execute", *plan)
        completed = f"Reassignment of partition {topic}-0 is completed."
        _until(lambda: completed in tools.run("kafka-reassign-partitions", "--verify", *plan), completed)
        check([row()[name] for name in ("Leader", "Replicas")], [str(moved[0]), ",".join(map(str, moved))])
        _has(tools.run("kafka-reassign-partitions", "--list"), "No partition reassignments found.")
        lines = tools.run("kafka-log-dirs", "--describe", "--topic-list", topic).splitlines()
        folders = json.loads(next(line for line in lines if line.startswith("{")))["brokers"]
        having = [each["broker"] for each in folders if any(one["partitions"] for one in each["logDirs"])]
        check(sorted(having), sorted(moved))


def _until(reached: Callable[[], bool], expected: str) -> None:
    """Wait until ``reached()``. Raises AssertionError after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, f"not in {PATIENCE:g} s: {expected}"
        time.sleep(0.5)


def end(tools: Tools) -> None:
    """Delete the topic."""
    tools.run("kafka-topics", "--delete", "--topic", _TOPIC)
    assert _TOPIC not in tools.run("kafka-topics", "--list").split()
    _has(tools.run("kafka-topics", "--delete", "--topic", _TOPIC, status=1), "does not exist as expected")


def try_commands(had: Had, broker: KafkaBroker) -> Iterator[tuple[str, str]]:
    """Yield what was tried, and how it went."""
    with Tools(had, broker.bootstrap_servers, broker.messages) as tools:
        works: list[Work] = [
            ("kafka-topics --create, --describe, --list, --alter", lambda: topics(tools)),
            ("kafka-configs --describe, --alter", lambda: settings(tools)),
            ("kafka-console-producer, kafka-console-consumer --group", lambda: console(tools)),
            ("kafka-get-offsets, by times too", lambda: offsets(tools)),
            ("kafka-consumer-groups, kafka-groups, kafka-streams-application-reset", lambda: groups(tools)),
            ("kafka-log-dirs, kafka-delete-records", lambda: records(tools)),
            ("kafka-reassign-partitions", lambda: reassignments(tools)),
            ("kafka-leader-election and seven more", lambda: cluster(tools)),
            ("kafka-topics --delete", lambda: end(tools)),
        ]
        yield from outcomes(works)
