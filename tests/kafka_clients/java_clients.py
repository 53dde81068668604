"""Apache Kafka's own clients, in Java, beyond what every client is asked for: the cases of ``drivers/java``."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from logd import Message
from logd.testing import KafkaBroker, KafkaRecord
from logd.testing.processes.broker import BrokerProcess, free_port
from tests.kafka_clients.drivers.digest import record
from tests.kafka_clients.group import PATIENCE
from tests.kafka_clients.having import Had
from tests.kafka_clients.java_groups import (
    try_cooperative_group,
    try_killed_broker,
    try_paused_broker,
    try_static_members,
)
from tests.kafka_clients.native import produce_native, send_native
from tests.kafka_clients.outcomes import Work, check, check_each, outcomes

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TIME = 1_600_000_000_000
Headers = list[tuple[str, bytes | None]]


def samples() -> list[tuple[bytes | None, bytes | None, Headers]]:
    """Return keys, values and headers of all kinds."""
    mixed: Headers = [("a", b"1"), ("a", b"2"), ("", b""), ("null", None), ("größe", bytes(range(256)))]
    large = random.Random(1).randbytes(200_000)
    found: list[tuple[bytes | None, bytes | None, Headers]] = [
        (b"key", b"value", []),
        (None, b"no key", []),
        (b"tombstone", None, []),
        (None, None, [("neither key nor value", None)]),
        (b"", b"", []),
        (b"headers", b"value", mixed),
        (b"tombstone", None, mixed),
        (bytes(range(256)), bytes(range(255, -1, -1)), []),
        (b"large", large, []),
        (b"larger", b"x" * 900_000, []),
    ]
    for number in range(40):
        found.append((b"%d" % number, b"%d " % number * 100, [("n", b"%d" % number)]))
    return found


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _plain(headers: Any) -> list[list[str | None]]:
    return [[name, _hex(value)] for name, value in headers]


def _shown(stored: list[KafkaRecord]) -> list[list[object]]:
    """Return records as the program shows those that it reads."""
    return [[each.offset, each.timestamp, _hex(each.key), _hex(each.value), _plain(each.headers)] for each in stored]


def _kinds(found: Mapping[str, Any], names: Iterable[str]) -> dict[str, object]:
    """Return the classes of the failures of these names, None where nothing failed."""
    return {name: found[name] and found[name][0] for name in names}


def _times() -> Iterator[int]:
    """Yield times that do not rise all the time."""
    for number in range(1_000_000):
        yield _TIME + 10 * number + 25 * (number % 3)


def try_records(had: Had, broker: KafkaBroker) -> None:
    """Every kind of record by every codec; then the native client's, read by the same consumer."""
    times = _times()
    given: list[list[object]] = [
        [codec, next(times), _hex(key), _hex(value), _plain(headers)]
        for codec in _CODECS
        for key, value, headers in samples()
    ]
    native = "java-from-native"
    messages = [
        Message(value, key=key, timestamp=next(times), headers=headers)
        for key, value, headers in samples()
        if (key, value) != (None, None)
    ]
    send_native(broker, native, messages)
    found = had.answer("records", broker.bootstrap_servers, "java-kinds", native, given=json.dumps(given))
    stored = _shown(broker.messages("java-kinds"))
    check([each[1:] for each in stored], [each[1:] for each in given])
    check(found["acknowledged"], [each[:2] for each in stored])
    check(found["read"]["java-kinds"], stored)
    check(found["read"][native], _shown(broker.messages(native)))
    check(found["the same by small fetches"], True)
    for acks in range(2):
        values = [each.value for each in broker.messages(f"java-kinds-acks-{acks}", at_least=100)]
        check(values, [record(number)[1] for number in range(100)])
    small = [codec for codec, rate in found["rates"].items() if rate < 0.9]
    check(small, [codec for codec in _CODECS if codec != "none"])


def try_places(had: Had, broker: KafkaBroker) -> None:
    """Seeks, offsets by time, committed positions and listed offsets, in a topic of ``try_records``."""
    topic = "java-kinds"
    stored = broker.messages(topic)
    middle = stored[len(stored) // 2 + 3]
    known = [each.timestamp or 0 for each in stored]
    times = [0, known[0], known[len(known) // 3], known[len(known) // 2] + 1, known[-1], max(known), max(known) + 1]

    def at(time: int) -> list[int] | None:
        return next(([each.offset, each.timestamp or 0] for each in stored if (each.timestamp or 0) >= time), None)

    end = stored[-1].offset + 1
    found = had.answer("places", broker.bootstrap_servers, topic, middle.offset, ",".join(map(str, times)))
    failures = {"nothing committed": "NoOffsetForPartitionException", "past the end": "OffsetOutOfRangeException"}
    check_each(_kinds(found, failures), failures)
    begin = found["beginning offset"]
    assert begin <= stored[0].offset, f"the log begins at {begin}, behind its first record"
    expected = {
        "begin": [begin, stored[0].offset],
        "end": end,
        "end offset": end,
        "lag at the end": 0,
        "sought": middle.offset,
        "behind it": stored[len(stored) // 2 + 4].offset,
        "times": {str(time): at(time) for time in times},
        "paused": 0,
        "resumed": middle.offset,
        "committed": [middle.offset, "a note"],
        "partitions": 1,
        "listed": True,
        "from the committed one": middle.offset,
        "fifty years ago": stored[0].offset,
        "by a pattern": stored[0].offset,
        "listed offsets": {
            "earliest": begin,
            "latest": end,
            "max time": next(each.offset for each in stored if each.timestamp == max(known)),
        },
    }
    check_each(found, expected)


def try_fencing(had: Had, broker: KafkaBroker) -> None:
    """A second member of one name fences the first; one that polls too seldom has lost its partitions."""
    topic = "java-fenced"
    produce_native(broker, topic, range(10))
    expected = {
        "first": True,
        "second": True,
        "second again": None,
        "the slow again": True,
    }
    found = had.answer("fenced", broker.bootstrap_servers, topic)
    failures = {"first again": "FencedInstanceIdException", "commit of the slow": "CommitFailedException"}
    check_each(_kinds(found, failures), failures)
    check_each(found, expected)


def try_administration(had: Had, broker: KafkaBroker) -> None:
    """A topic and a group from their creation to their end, by Admin."""
    found = had.answer("administer", broker.bootstrap_servers, "java-administered")
    refusals = {
        "created again": "TopicExistsException",
        "fewer": "InvalidPartitionsException",
        "by id": "UnsupportedVersionException",
        "unknown setting": "InvalidConfigurationException",
        "delete with members": "GroupNotEmptyException",
        "deleted group again": "GroupIdNotFoundException",
        "deleted again": "UnknownTopicOrPartitionException",
    }
    check_each(_kinds(found, refusals), refusals)
    check_each(
        found,
        {
            "cluster": [True, 1, True],
            "validated only": False,
            "listed": True,
            "partitions": 2,
            "more partitions": 3,
            "setting": "3600000",
            "altered": ["7200000", "delete,compact"],
            "reset": ["604800000", "delete"],
            "group": ["Stable", "Classic", "range", 1, 3],
            "groups": True,
            "all groups": True,
            "deleted records": [True, True],
            "first of the rest": True,
            "committed at the end": True,
            "altered position": [3, "set by hand"],
            "deleted position": True,
            "deleted group": "Dead",
            "log directories": [3],
            "election": "ElectionNotNeededException",
            "reassignments": 0,
            "broker setting": "1",
            "deleted": False,
        },
    )


def try_refusals(had: Had, broker: KafkaBroker) -> None:
    """Each answer to what is not served is an error of its own, and not a time that is over."""
    broker.create_topic("java-refused")
    found = had.answer("refusals", broker.bootstrap_servers, "java-refused")
    unsupported = "UnsupportedVersionException"
    check(
        _kinds(found, found),
        {
            "transactions": "TransactionalIdAuthorizationException",
            "group.protocol=consumer": unsupported,
            "share group": unsupported,
            "too large": "RecordTooLargeException",
            "the next one": None,
            "list transactions": unsupported,
            "describe producers": unsupported,
            "fence producers": "TransactionalIdAuthorizationException",
            "delegation token": unsupported,
            "quorum": unsupported,
        },
    )


def try_users(had: Had) -> None:
    """SCRAM, PLAIN over TLS, rules and quotas, at ``logd broker`` with users."""
    with tempfile.TemporaryDirectory() as folder:
        _certificates(folder)
        plain, tls = free_port(), free_port()
        keys = f"privateKey={folder}/key.pem:certKey={folder}/certificate.pem"
        options = ["--set", "security.required=true", "--set", "security.superusers=root"]
        for endpoint in (f"tcp:{plain}:interface=127.0.0.1", f"ssl:{tls}:{keys}:interface=127.0.0.1"):
            options += ["--kafka-listen", endpoint]
        passwords = {"root": "the password of root", "ann": "the password of ann"}
        with BrokerProcess(f"{folder}/data", options, patience=PATIENCE) as broker:
            for name, password in passwords.items():
                path = Path(folder) / name
                path.write_text(f"{password}\n", encoding="ascii")
                add = ["users", "add", name, "--password-file", str(path), "--zookeeper", broker.coordination]
                subprocess.run([sys.executable, "-m", "logd", *add], check=True, capture_output=True, timeout=PATIENCE)
            where = f"127.0.0.1:{plain}", f"localhost:{tls}", f"{folder}/certificate.pem"
            found = had.answer("users", *where, *passwords.values())
    topic, cluster = "TopicAuthorizationException", "ClusterAuthorizationException"
    refusals = {
        "nothing allowed": topic,
        "allowed to write": None,
        "allowed to read": None,
        "another group, over TLS": "GroupAuthorizationException",
        "PLAIN over TLS": None,
        "PLAIN without TLS": "UnsupportedSaslMechanismException",
        "a wrong password": "SaslAuthenticationException",
        "another topic": topic,
        "read another topic": topic,
        "without a user": topic,
        "create": topic,
        "delete": topic,
        "see rules": cluster,
        "a new password": "UnacceptableCredentialException",
    }
    check_each(_kinds(found, refusals), refusals)
    expected = {
        "rules": 3,
        "listed": ["t"],
        "users": ["ann", "root"],
        "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"],
        "quota": {"producer_byte_rate": 1_000_000.0},
        "removed rules": 4,
        "no rules": 0,
    }
    check_each(found, expected)


def _certificates(folder: str) -> None:
    """Make a certificate that is its own authority, for localhost and the address that the broker tells of itself."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    more = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run([*command.split(), *more], cwd=folder, check=True, capture_output=True)


def try_java(had: Had, broker: KafkaBroker) -> Iterator[tuple[str, str]]:
    """Yield what was tried with the clients of Java alone, and how it went."""
    works: list[Work] = [
        ("every kind of record by every codec, and from a native client", lambda: try_records(had, broker)),
        ("seeks, offsets by time, committed positions", lambda: try_places(had, broker)),
        ("a cooperative group of three, one killed", lambda: try_cooperative_group(had, broker)),
        ("static members: one back after SIGKILL, one removed", lambda: try_static_members(had, broker)),
        ("members of one name, members that are too slow", lambda: try_fencing(had, broker)),
        ("users by SCRAM and PLAIN, with TLS, rules and quotas", lambda: try_users(had)),
        ("idempotent producer and a group, logd broker killed twice", lambda: try_killed_broker(had)),
        ("idempotent producer, logd broker suspended until records are given up", lambda: try_paused_broker(had)),
        ("Admin: a topic and a group from creation to end", lambda: try_administration(had, broker)),
        ("what is not served is refused clearly", lambda: try_refusals(had, broker)),
    ]
    return outcomes(works)
