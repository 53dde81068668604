"""A stream of a consumer group: its partitions come and go, and handled messages are committed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

from logd.client.consumer.consumer_state import ConsumerState
from logd.client.consumer.fetching.batches import MessageBatch, RawChunk
from logd.client.consumer.group.group_stream_state import GroupStreamState
from logd.client.consumer.stream import MessageStream
from logd.protocol.message import Message
from logd.topic import TopicPartition


class GroupStream(MessageStream):
    """A MessageStream whose partitions are decided by the group, and change.

    **Handled messages** are committed. With ``commit="taken"`` a message counts as handled once the application asks
    for the next one: a loop comes round, ``get`` is called again; a batch or raw chunk counts as one. So a message that
    the body of a loop is busy with is never committed. With ``commit="handled"`` a message counts once ``handled`` was
    called with it.

    When a partition is taken away, the bytes held of it are dropped, also the rest of a batch that is being handed over
    message by message. A batch that was handed over as a whole stays with the application.
    """

    def __init__(self, state: GroupStreamState, consumer: object, consumer_state: ConsumerState) -> None:
        super().__init__(state, consumer, consumer_state)
        #: ``state``, with its own type.
        self.group_state = state

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that the stream has at this moment."""
        return self.group_state.partitions()

    def raw(self, until: Mapping[int, int] | None = None, *, find_boundaries: bool = True) -> AsyncIterator[RawChunk]:
        """Yield the bytes of the log as in MessageStream.

        The stream looks for the end of the last whole entry in each chunk, since no part of an entry is committed.
        Without ``find_boundaries`` the application does that, and tells ``handled``; this is for ``commit="handled"``.
        """
        self.group_state.find_boundaries(find_boundaries)
        return super().raw(until)

    def handled(self, item: Message | MessageBatch | RawChunk, up_to: int | None = None) -> None:
        """Mark an item, and all before it in its partition, as handled (``commit="handled"``).

        ``up_to``: the end of the last whole entry up to the end of a RawChunk, where ``raw`` does not find it.

        Has no effect when the partition was taken away since, or with ``commit="taken"``. A message does not tell when
        it was handed over: where the partition has come back at an earlier position (``logd groups reset``), or its
        topic was made again, an item of before counts once as much was handed over again. So an application that keeps
        items to mark them later forgets those of ``on_revoked``.
        """
        self.group_state.handled(item, up_to)

    def close(self) -> None:
        """End the stream: commit what is handled of it, and give its partitions to the group's other streams."""
        super().close()

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """Seek as in MessageStream, for the group too: messages handed over before count as handled."""
        super().seek(partition, position, topic)

    def go_back(self, partition: int, position: int, topic: str | None = None) -> RawChunk:
        """Seek in a partition that is read raw, but leave what counts as handled as it is, or lower (``"handled"``).

        Returns an empty chunk, for which ``handled`` is called once all before ``position`` is handled, at the latest
        with the chunk that follows. Raises as ``seek``.
        """
        return self.group_state.go_back(partition, position, topic)

    def read_from_thread(
        self, before_report: Callable[[], None], revoked: Callable[[TopicPartition | None, bool], None]
    ) -> bool:
        """Read from another thread; see GroupStreamState."""
        return self.group_state.read_from_thread(before_report, revoked)
