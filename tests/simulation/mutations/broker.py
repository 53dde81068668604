"""Mutations of the code by which a broker stores, checks and counts messages and topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

from logd.broker.requests.produce import ProduceRequests
from logd.broker.topics import comparison
from logd.broker.topics import ends_recorder as storedends
from logd.broker.topics import stored_topics as storedtopics
from logd.checkedjson import load_json
from logd.coord.registries import topics
from logd.coord.registries.brokers import BrokerInfo
from logd.errors import CorruptMessage, DataDirectoryError
from logd.interfaces import IFileOperations
from logd.log import checkpoints_and_expiry
from logd.log.flusher import FlushState
from logd.log.recovery.checkpoint import Checkpoint, write_checkpoint
from logd.log.store import topics_file
from logd.protocol.loops import checking
from logd.protocol.loops.openwrapper import OpenWrapper


@contextmanager
def serve_partitions_of_two() -> Iterator[None]:
    """Brokers serve a topic whose partitions are listed on two brokers, each by itself."""
    with ExitStack() as patches:
        for module in (comparison, storedtopics):
            patches.enter_context(mock.patch.object(module, "several_brokers", lambda topic, entry: None))
        yield


def flush_each_append() -> AbstractContextManager[Any]:
    """The settings flush.messages and flush.ms do nothing."""
    return mock.patch.object(FlushState, "limit", lambda state, messages, milliseconds: None)


def more_messages_than_bytes_are_damage() -> AbstractContextManager[Any]:
    """A wrapper with more messages than bytes counts as damaged."""
    check = OpenWrapper._check

    def refuse(wrapper: OpenWrapper, most: int, most_bytes: int) -> None:
        check(wrapper, most, most_bytes)
        if wrapper.count > wrapper.end - wrapper.start:
            raise CorruptMessage("the wrapper holds more messages than bytes", wrapper.start)

    return mock.patch.object(OpenWrapper, "_check", refuse)


def store_wrappers_of_no_codec() -> AbstractContextManager[Any]:
    """A broker stores a wrapper that its codec cannot open."""
    return mock.patch.object(checking, "may_be_produced", lambda attributes, payload: True)


def append_batches_before_their_format() -> AbstractContextManager[Any]:
    """The format for batches is raised, and the first batch is appended meanwhile."""

    def goes_on(producing: ProduceRequests) -> bool:
        producing._batch_format.make_ready(lambda error: None)
        return False

    return mock.patch.object(ProduceRequests, "waits_for_format", goes_on)


def believe_names_in_the_tree() -> AbstractContextManager[Any]:
    """A topic's node is used without a check of its name."""
    return mock.patch.object(topics, "check_topic_name", lambda name: name)


def believe_json_in_the_tree() -> AbstractContextManager[Any]:
    """A topic's node is read as if its JSON were always valid and shallow."""
    return mock.patch.object(topics, "load_json", json.loads)


@contextmanager
def believe_brokers_in_the_tree() -> Iterator[None]:
    """A foreign node among those of the brokers is read as if a broker had written it."""

    def decode(name: str, data: bytes) -> BrokerInfo:
        value = json.loads(data.partition(b":")[2] or data)
        return BrokerInfo(int(name), value["host"], value["port"], value["instance"])

    with mock.patch.object(BrokerInfo, "decode", staticmethod(decode)):
        yield


def begin_again_at_the_known_end() -> AbstractContextManager[Any]:
    """A log whose loss is accepted begins again at its last known end, not at a multiple of 2^40."""
    return mock.patch.object(storedends, "beginning_after", lambda end: end)


def remove_before_the_checkpoint() -> AbstractContextManager[Any]:
    """Retention removes segments before the checkpoint records the new log start."""

    def remove_first(files: IFileOperations, folder: str, checkpoint: Checkpoint, expired: Iterable[int]) -> None:
        expired = list(expired)
        for start in expired:
            checkpoints_and_expiry._remove(files, folder, start)
        if not expired:
            write_checkpoint(files, folder, checkpoint)

    return mock.patch.object(checkpoints_and_expiry, "do_upkeep", remove_first)


def stop_at_a_damaged_record() -> AbstractContextManager[Any]:
    """A topics.json that is no valid JSON stops the broker, though the tree has the lost records, too."""

    def refuse(data: bytes) -> dict[str, Any]:
        raise DataDirectoryError("topics.json is damaged")

    return mock.patch.object(topics_file, "_sound_lines", refuse)


def believe_damaged_records() -> AbstractContextManager[Any]:
    """A record of topics.json is believed, though its checksum does not match."""

    def without_checks(data: bytes, limit: int) -> Any:
        values = load_json(data, limit)
        for value in values.values() if isinstance(values, dict) else ():
            if isinstance(value, dict):
                value.pop("check", None)
        return values

    return mock.patch.object(topics_file, "load_json", without_checks)


#: The mutations of this module, by name.
BROKER_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each
    for each in (
        serve_partitions_of_two,
        flush_each_append,
        more_messages_than_bytes_are_damage,
        store_wrappers_of_no_codec,
        append_batches_before_their_format,
        believe_names_in_the_tree,
        believe_json_in_the_tree,
        believe_brokers_in_the_tree,
        begin_again_at_the_known_end,
        remove_before_the_checkpoint,
        stop_at_a_damaged_record,
        believe_damaged_records,
    )
}
