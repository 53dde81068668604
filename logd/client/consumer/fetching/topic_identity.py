"""The topic that a partition's positions belong to, told from others of the same name by its uuid."""

from __future__ import annotations

from attrs import define


@define(eq=False)
class TopicIdentity:
    """The identity of the topic that is read. ``matches`` takes the first uuid for that of the topic."""

    #: The uuid of the topic that positions belong to; None until it is known.
    uuid: str | None
    #: True if the caller has named the uuid: another topic of that name is not read. Otherwise reading continues in
    #: the other topic, as behind a position that is gone.
    fixed: bool
    #: True when damage was seen since the metadata was read: the log may be that of another topic.
    doubted: bool = False

    @classmethod
    def given(cls, uuid: str | None) -> TopicIdentity:
        """Return the identity with the uuid that the caller knows, fixed to it; None if the caller knows none."""
        return cls(uuid, uuid is not None)

    def matches(self, uuid: str) -> bool:
        """Return whether the topic has this uuid, by metadata just read. The first uuid is taken for the topic's."""
        if self.uuid is None:
            self.uuid = uuid
        return self.uuid == uuid
