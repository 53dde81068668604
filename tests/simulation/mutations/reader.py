"""Mutations of the code that limits, counts and reports what consumers read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from logd.client.consumer.fetching.losses import PartitionLosses
from logd.coord.errors import NoNode
from logd.coord.registries import offsets
from logd.coord.registries.offsets import Offset, OffsetRegistry
from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.loops import decoding, openwrapper
from logd.protocol.loops.openwrapper import OpenWrapper
from logd.topic import TopicPartition


def pass_gaps_silently() -> AbstractContextManager[Any]:
    """A consumer does not count the gaps that it passes."""
    return mock.patch.object(PartitionLosses, "gap", lambda *arguments: None)


def open_whatever_it_becomes() -> AbstractContextManager[Any]:
    """The limits on a decompressed wrapper are not checked."""
    open_entry = openwrapper.open_wrapper_entry

    def unbounded(attributes: int, payload: bytes, start: int, end: int, *bounds: int) -> OpenWrapper:
        return open_entry(attributes, payload, start, end, 1 << 30, 1 << 30)

    return mock.patch.object(decoding, "open_wrapper_entry", unbounded)


@contextmanager
def too_large_is_damage() -> Iterator[None]:
    """A wrapper above the limits counts as damaged."""
    check = OpenWrapper._check

    def refuse(wrapper: OpenWrapper, most: int, most_bytes: int) -> None:
        try:
            check(wrapper, most, most_bytes)
        except WrapperTooLarge as error:
            raise CorruptMessage(str(error), wrapper.start) from None

    with mock.patch.object(OpenWrapper, "_check", refuse):
        yield


def believe_positions_in_the_tree() -> AbstractContextManager[Any]:
    """Any text that Python accepts as a number counts as a position."""
    return mock.patch.object(offsets, "decode_position", lambda data: int(data) if data else None)


def stop_a_group_for_a_bad_position() -> AbstractContextManager[Any]:
    """An unreadable position is an error for the whole group."""

    async def read(registry: OffsetRegistry, where: TopicPartition) -> Offset | None:
        try:
            data, stat = await registry._coordination.get(registry.path(where))
        except NoNode:
            return None
        return Offset(offsets.decode_position(data), stat.version)

    return mock.patch.object(OffsetRegistry, "read", read)


#: The mutations of this module, by name.
READER_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each
    for each in (
        pass_gaps_silently,
        open_whatever_it_becomes,
        too_large_is_damage,
        believe_positions_in_the_tree,
        stop_a_group_for_a_bad_position,
    )
}
