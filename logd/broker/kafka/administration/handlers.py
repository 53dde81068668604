"""The handlers of administration requests by their APIs, for one connection."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from logd.broker.kafka.administration.access_rules import (
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    KafkaAccessRules,
)
from logd.broker.kafka.administration.client_quotas import (
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_CLIENT_QUOTAS,
    KafkaClientQuotas,
)
from logd.broker.kafka.administration.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    KafkaReassignments,
)
from logd.broker.kafka.administration.scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    KafkaScramCredentials,
)
from logd.broker.kafka.administration.settings import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    KafkaSettingsAdministration,
)
from logd.broker.kafka.administration.stored_records import DELETE_RECORDS, DESCRIBE_LOG_DIRS, KafkaStoredRecords
from logd.broker.kafka.administration.topics import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    KafkaTopicAdministration,
)
from logd.broker.requests.core import BrokerCore
from logd.broker.security.rights import Rights
from logd.protocol.kafka.apis import KafkaApi


def administration_handlers(
    broker: BrokerCore, rights: Rights
) -> dict[KafkaApi, Callable[[Any], Coroutine[Any, Any, Any]]]:
    """Return the handlers."""
    topics = KafkaTopicAdministration(broker, rights)
    settings = KafkaSettingsAdministration(broker, rights)
    records = KafkaStoredRecords(broker, rights)
    rules = KafkaAccessRules(broker, rights)
    credentials = KafkaScramCredentials(broker, rights)
    quotas = KafkaClientQuotas(broker, rights)
    reassignments = KafkaReassignments(broker, rights)
    return {
        CREATE_TOPICS: topics.create_topics,
        DELETE_TOPICS: topics.delete_topics,
        CREATE_PARTITIONS: topics.create_partitions,
        DELETE_RECORDS: records.delete_records,
        DESCRIBE_LOG_DIRS: records.describe_log_dirs,
        DESCRIBE_ACLS: rules.describe_acls,
        CREATE_ACLS: rules.create_acls,
        DELETE_ACLS: rules.delete_acls,
        DESCRIBE_CLIENT_QUOTAS: quotas.describe_client_quotas,
        ALTER_CLIENT_QUOTAS: quotas.alter_client_quotas,
        ALTER_PARTITION_REASSIGNMENTS: reassignments.alter_partition_reassignments,
        LIST_PARTITION_REASSIGNMENTS: reassignments.list_partition_reassignments,
        DESCRIBE_USER_SCRAM_CREDENTIALS: credentials.describe_user_scram_credentials,
        ALTER_USER_SCRAM_CREDENTIALS: credentials.alter_user_scram_credentials,
        DESCRIBE_CONFIGS: settings.describe_configs,
        ALTER_CONFIGS: settings.alter_configs,
        INCREMENTAL_ALTER_CONFIGS: settings.incremental_alter_configs,
    }
