"""The suites that can be had, and the reason for each test that cannot pass."""

from __future__ import annotations

from tests.kafka_clients.suites.suite import Suite

_POSITIONS = "expects offsets that count messages; here they are positions"
_TRANSACTIONS = "there are no transactions"
_OWN_BROKER = "starts Apache Kafka's broker itself"

KAFKA_PYTHON = Suite(
    name="kafka-python",
    version="3.0.12",
    tests="test/integration",
    needs=("pytest", "pytest-mock", "pytest-timeout", "py", "cramjam", "python-snappy", "lz4", "zstandard"),
    # The release whose requests and versions are the nearest to those that are served here.
    environment={"KAFKA_VERSION": "2.3"},
    alone=("test_create_describe_delete_acls",),
    missing={
        "test/__init__.py": "",
        "test/service.py": (
            "class SpawnedService:\n    pass\n\n\n"
            "class ExternalService:\n    def __init__(self, host, port):\n        pass\n"
        ),
    },
    expected={
        "test_create_describe_delete_acls": "the first rule shuts those without a user out, so its maker as well",
        "test_describe_configs_broker_resource_returns_configs": "a broker's settings have the names of logd",
        "test_delete_records": _POSITIONS,
        "test_elect_leaders": "ElectLeaders is not served",
        "test_alter_replica_log_dirs": "AlterReplicaLogDirs is not served: a broker has one data folder",
        "test_kafka_version_infer": "requests of several releases are served, so none fits exactly",
        "test_kafka_consumer_offsets_for_time": _POSITIONS,
        "test_kafka_consumer_offsets_search_many_partitions": _POSITIONS,
        "test_kafka_consumer_position_after_seek_to_end": _POSITIONS,
        "test_kafka_producer_proper_record_metadata[*]": _POSITIONS,
        "test_idempotent_producer_high_throughput": _POSITIONS,
        "test_transactional_producer_messages": _TRANSACTIONS,
        "test_transactional_producer_offsets": _TRANSACTIONS,
        "test_ssl_handshake": _OWN_BROKER,
        "test_legacy_kafka_client_ssl": _OWN_BROKER,
    },
)

#: The source distributions of aiokafka from 0.7 to 0.14 leave its tests out, so this says that they cannot be had.
AIOKAFKA = Suite(name="aiokafka", version="0.14.0", tests="tests", expected={}, needs=("pytest",))

SUITES = (KAFKA_PYTHON, AIOKAFKA)
