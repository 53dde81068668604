"""The suites that can be had, and the reason for each test that cannot pass."""

from __future__ import annotations

from pathlib import Path

from tests.kafka_clients.suites.suite import Suite

_POSITIONS = "expects offsets that count messages; here they are positions"
_TRANSACTIONS = "there are no transactions"
_OWN_BROKER = "starts Apache Kafka's broker itself"
_SUBSCRIBED_EARLY = (
    "a consumer that subscribes while its first metadata are on their way asks for no others for minutes"
)

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
    unsteady={
        "test_kafka_consumer_max_bytes_simple": _SUBSCRIBED_EARLY,
        "test_kafka_consumer_unsupported_encoding": _SUBSCRIBED_EARLY,
    },
)

AIOKAFKA = Suite(
    name="aiokafka",
    version="0.14.0",
    tests="tests",
    distributed=False,
    modules=(
        "test_admin.py",
        "test_client.py",
        "test_conn.py",
        "test_consumer.py",
        "test_coordinator.py",
        "test_pep492.py",
        "test_producer.py",
        "test_sasl.py",
        "test_sender.py",
        "test_transactional_consumer.py",
        "test_transactional_producer.py",
    ),
    # These versions are those of its repository: its tests make warnings errors, and later ones warn.
    needs=("pytest==9.0.2", "pytest-asyncio==1.3.0", "pytest-mock", "pytest-timeout", "cramjam"),
    instead={"tests/conftest.py": Path(__file__).with_name("aiokafka_fixtures.py")},
    # A failed test leaves its clients open, and what Python says of them would be counted as a fault of a later one.
    options=("-p", "no:unraisableexception"),
    broker={"topics_partitions": 2},
    unsteady={
        "test_list_consumer_group_offsets": "may send before its consumer asks for the end, and then waits for ever",
    },
    expected={
        "test_consumer_compacted_topic": _POSITIONS,
        "test_consumer_position": _POSITIONS,
        "test_consumer_seek_forward_getmany": _POSITIONS,
        "test_consumer_seek_forward_getone": _POSITIONS,
        "test_consumer_seek_to_beginning": _POSITIONS,
        "test_consumer_seek_to_end": _POSITIONS,
        "test_kafka_consumer_offsets_search_many_partitions": _POSITIONS,
        "test_manual_subscribe_pattern": _POSITIONS,
        "test_offsets_for_times_single": _POSITIONS,
        "test_simple_consumer": _POSITIONS,
        "test_create_producer_no_running_loop": _POSITIONS,
        "test_producer_send": _POSITIONS,
        "test_producer_send_batch": _POSITIONS,
        "test_producer_send_with_serializer": _POSITIONS,
        "test_exclude_internal_topics": "there is no topic __consumer_offsets",
        "test_sender_maybe_wait_for_pid_on_failure": _TRANSACTIONS,
        "test_consumer_several_transactions": _TRANSACTIONS,
        "test_consumer_simple_read_only_control_record": _TRANSACTIONS,
        "test_consumer_transactional_abort": _TRANSACTIONS,
        "test_consumer_transactional_commit": _TRANSACTIONS,
        "test_consumer_transactional_read_only_control_record": _TRANSACTIONS,
        "test_producer_transactional_aborting_previous_failure": _TRANSACTIONS,
        "test_producer_transactional_cancel_txn_methods": _TRANSACTIONS,
        "test_producer_transactional_empty_txn": _TRANSACTIONS,
        "test_producer_transactional_fences_off_previous": _TRANSACTIONS,
        "test_producer_transactional_flush_2_batches_before_commit": _TRANSACTIONS,
        "test_producer_transactional_flush_before_commit": _TRANSACTIONS,
        "test_producer_transactional_raise_out_of_sequence": _TRANSACTIONS,
        "test_producer_transactional_restart_reaquire_pid": _TRANSACTIONS,
        "test_producer_transactional_send_batch_outside_txn": _TRANSACTIONS,
        "test_producer_transactional_send_message_outside_txn": _TRANSACTIONS,
        "test_producer_transactional_send_offsets_and_abort": _TRANSACTIONS,
        "test_producer_transactional_send_offsets_error_checks": _TRANSACTIONS,
        "test_producer_transactional_send_offsets_to_transaction": _TRANSACTIONS,
        "test_producer_transactional_simple": _TRANSACTIONS,
    },
)

SUITES = (KAFKA_PYTHON, AIOKAFKA)
