"""Kafka's DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: settings of topics, and those of this broker.

A broker's settings are shown; they are changed in its file or by its options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from attrs import evolve, frozen

from logd.broker.kafka.administration.broker_settings import broker_settings
from logd.broker.kafka.administration.refusals import ChangeOutcome, Refused, code_of, outcome_of
from logd.broker.kafka.administration.setting_names import (
    KAFKA_SETTINGS,
    OURS_ALONE,
    ConfigType,
    KafkaSetting,
    TopicSettings,
    setting_named,
)
from logd.broker.kafka.error_codes import INVALID_CONFIG, INVALID_REQUEST
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.create_delete_topic import check_administration
from logd.broker.security.rights import Rights
from logd.config import LogSettings
from logd.errors import ConfigurationError, LogdError, UnknownTopic
from logd.protocol.kafka.apis import APIS, KafkaApi
from logd.security.access_rules import Operation
from logd.topic import TopicEntry, check_topic_name

DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = APIS[32], APIS[33], APIS[44]
_TOPIC, _BROKER = 2, 4
#: Resources that one request may describe.
MOST_DESCRIBED = 2000

#: The settings of a broker that has set none.
_UNSET = LogSettings()


class ValueSource(IntEnum):
    """The places that a value can come from, with the numbers of DescribeConfigs."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class _Operation(IntEnum):
    """The operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@frozen
class Described:
    """One setting with the value that counts; ``synonyms`` are all values that there are, the one that counts first."""

    name: str
    value: str
    source: ValueSource
    type: ConfigType
    meaning: str
    read_only: bool
    synonyms: tuple[tuple[str, str, ValueSource], ...]


class KafkaSettingsAdministration:
    """These requests of one connection. Each change and each refusal is logged with the peer."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._broker = broker
        self._rights = rights

    async def describe_configs(self, request: Any) -> Any:
        """Return settings, of each resource all or those that are named."""
        kind = DESCRIBE_CONFIGS.response_class.DescribeConfigsResult
        results = []
        turns = self._broker.turns()
        named: set[tuple[int, str]] = set()
        for number, resource in enumerate(request.resources):
            if turns.over:
                await turns.rest()
            outcome, found = ChangeOutcome(), []
            name = resource.resource_type, resource.resource_name
            try:
                if number >= MOST_DESCRIBED:
                    raise Refused(INVALID_REQUEST, f"one request may describe {MOST_DESCRIBED} resources: ask again")
                if name in named:  # the settings of a broker are some 100 kB
                    raise Refused(INVALID_REQUEST, f"{resource.resource_name!r} is named twice in one request")
                named.add(name)
                found = self._described(*name)
            except (Refused, LogdError) as error:
                outcome = ChangeOutcome(code_of(error), str(error))
            wanted = set(resource.configuration_keys or ())  # none are all of them
            shown = [each for each in found if not wanted or each.name in wanted]
            results.append(
                kind(
                    error_code=outcome.code,
                    error_message=outcome.text,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=[_config(kind.DescribeConfigsResourceResult, each, request) for each in shown],
                )
            )
        return DESCRIBE_CONFIGS.response(throttle_time_ms=0, results=results)

    async def alter_configs(self, request: Any) -> Any:
        """Replace all settings of topics."""

        def changed(settings: TopicSettings, configs: Iterable[Any]) -> TopicSettings:
            for name, row in KAFKA_SETTINGS.items():
                if name not in OURS_ALONE:
                    settings = settings.with_setting(row, None)
            for each in configs:
                settings = settings.with_setting(setting_named(each.name), each.value)
            return settings

        return await self._alter(ALTER_CONFIGS, request, changed)

    async def incremental_alter_configs(self, request: Any) -> Any:
        """Set and remove settings of topics."""

        def changed(settings: TopicSettings, configs: Iterable[Any]) -> TopicSettings:
            for each in configs:
                row = setting_named(each.name)
                text = _operated(row, each.config_operation, each.value, self._effective(row, settings))
                settings = settings.with_setting(row, text)
            return settings

        return await self._alter(INCREMENTAL_ALTER_CONFIGS, request, changed)

    async def _alter(self, api: KafkaApi, request: Any, changed: Any) -> Any:
        kind = api.response_class.AlterConfigsResourceResponse
        results = []
        log, requester = self._broker.administration_log, self._rights.requester
        turns = self._broker.turns()
        for resource in request.resources:
            if turns.over:
                await turns.rest()
            work = self._alter_one(resource, changed, bool(request.validate_only))
            name = resource.resource_name
            action = "change topic" if resource.resource_type == _TOPIC else "change settings"
            outcome = await outcome_of(work, log, requester, action, name)
            results.append(
                kind(
                    error_code=outcome.code,
                    error_message=outcome.text,
                    resource_type=resource.resource_type,
                    resource_name=name,
                )
            )
        return api.response(throttle_time_ms=0, responses=results)

    async def _alter_one(self, resource: Any, changed: Any, validate_only: bool) -> None:
        if resource.resource_type == _TOPIC:
            self._rights.check_topic(Operation.ALTER, resource.resource_name)
        else:
            self._rights.check_cluster(Operation.ALTER)
        check_administration(self._broker, "change settings")
        if resource.resource_type == _BROKER:
            self._check_removes_alone(resource)
            return
        if resource.resource_type != _TOPIC:
            raise Refused(INVALID_REQUEST, f"resources of type {resource.resource_type} have no settings here")
        topic = check_topic_name(resource.resource_name)
        repeated = [name for name, count in Counter(each.name for each in resource.configs).items() if count > 1]
        if repeated:
            raise Refused(INVALID_REQUEST, f"settings are named twice in one request: {', '.join(sorted(repeated))}")

        def change(entry: TopicEntry) -> TopicEntry:
            settings = changed(TopicSettings(entry.settings, entry.kafka_settings), resource.configs)
            if settings.native != entry.settings:
                self._broker.settings.log_settings(settings.native)
            return evolve(entry, settings=settings.native, kafka_settings=settings.kept)

        if validate_only:
            change(self._entry(topic))
            return
        entry = await self._broker.administration.change(topic, change)
        settings = {**entry.settings, **entry.kafka_settings}
        self._broker.administration_log.record(self._rights.requester, "change topic", topic, settings=settings)

    def _check_removes_alone(self, resource: Any) -> None:
        """Raise Refused unless nothing but the removal of this broker's settings is asked for.

        What can be removed is what was set while the broker runs, and there is none of that. Kafka's tools ask for the
        removal of the throttles of a reassignment, whether there were any or not.
        """
        me = str(self._broker.store.broker_id)
        if resource.resource_name not in ("", me):
            raise Refused(INVALID_REQUEST, f"this is broker {me}, and not broker {resource.resource_name!r}")
        operations = {getattr(each, "config_operation", _Operation.SET) for each in resource.configs}
        if operations != {_Operation.DELETE}:
            raise Refused(
                INVALID_REQUEST, "a broker's settings are in its file and its options, and are read at its start"
            )

    def _entry(self, topic: str) -> TopicEntry:
        entry = self._broker.topics.get(topic)
        if entry is None:
            raise UnknownTopic(f"there is no topic {topic!r}")
        return entry

    def _described(self, kind: int, name: str) -> list[Described]:
        """Return all settings of a resource. Raises Refused and WireError."""
        if kind == _TOPIC:
            self._rights.check_topic(Operation.DESCRIBE, name)
            entry = self._entry(check_topic_name(name))
            settings = TopicSettings(entry.settings, entry.kafka_settings)
            defaults = self._broker.settings.log_settings({})
            return [_of_topic(row, settings, defaults) for row in KAFKA_SETTINGS.values()]
        if kind != _BROKER:
            raise Refused(INVALID_REQUEST, f"resources of type {kind} have no settings here")
        self._rights.check_cluster(Operation.DESCRIBE)
        if not name:
            return []  # settings for all brokers that were changed while they run: there are none
        me = self._broker.store.broker_id
        if name != str(me):
            raise Refused(INVALID_REQUEST, f"this is broker {me}, which does not know the settings of broker {name!r}")
        return [
            Described(
                each.name,
                each.value,
                ValueSource.STATIC_BROKER if each.is_set else ValueSource.DEFAULT,
                each.type,
                each.meaning,
                True,
                ((each.name, each.value, ValueSource.STATIC_BROKER if each.is_set else ValueSource.DEFAULT),),
            )
            for each in broker_settings(self._broker)
        ]

    def _effective(self, row: KafkaSetting, settings: TopicSettings) -> str:
        own = settings.get(row)
        return _default(row, self._broker.settings.log_settings({}))[0] if own is None else own


def _of_topic(row: KafkaSetting, settings: TopicSettings, defaults: LogSettings) -> Described:
    value, source = _default(row, defaults)
    synonyms = ((row.broker_name, value, source),) if row.broker_name else ()
    own = settings.get(row)
    if own is not None:
        value, source = own, ValueSource.TOPIC
        synonyms = ((row.name, own, source), *synonyms)
    return Described(row.name, value, source, row.type, row.meaning, False, synonyms)


def _default(row: KafkaSetting, defaults: LogSettings) -> tuple[str, ValueSource]:
    """Return the value that a topic without one has."""
    if row.native is None:
        return row.default, ValueSource.DEFAULT
    value = getattr(defaults, row.native.field_name)
    is_set = value != getattr(_UNSET, row.native.field_name)
    return row.text_of(value), ValueSource.STATIC_BROKER if is_set else ValueSource.DEFAULT


def _operated(row: KafkaSetting, operation: int, value: str | None, current: str) -> str | None:
    """Return the value that an operation gives to a setting, None for the default. Raises Refused."""
    if operation == _Operation.DELETE:
        return None
    if value is None:
        raise Refused(INVALID_REQUEST, f"{row.name} has no value")
    if operation == _Operation.SET:
        return value
    if operation not in tuple(_Operation):
        raise Refused(INVALID_REQUEST, f"there is no operation {operation} on settings")
    if row.type is not ConfigType.LIST:
        raise Refused(INVALID_CONFIG, f"{row.name} is no list: it can be set, and not appended to or subtracted from")
    present = [word for word in current.split(",") if word]
    # No list: a request may name 16,000 words, and each would be compared with all the others.
    words = dict.fromkeys(word.strip() for word in value.split(",") if word.strip())
    if operation == _Operation.APPEND:
        return ",".join(dict.fromkeys([*present, *words]))
    left = ",".join(word for word in present if word not in words)
    if not left and row.name == "cleanup.policy":
        raise ConfigurationError(f"{row.name} would be empty")
    return left


def _config(kind: Any, found: Described, request: Any) -> Any:
    synonyms = found.synonyms if request.include_synonyms else ()
    return kind(
        name=found.name,
        value=found.value,
        read_only=found.read_only,
        is_default=found.source is not ValueSource.TOPIC and found.source is not ValueSource.STATIC_BROKER,
        config_source=int(found.source),
        is_sensitive=False,
        synonyms=[
            kind.DescribeConfigsSynonym(name=name, value=value, source=int(source)) for name, value, source in synonyms
        ],
        config_type=int(found.type),
        documentation=found.meaning if request.include_documentation else None,
    )
