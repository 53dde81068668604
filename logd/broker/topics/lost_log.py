"""Lost logs: partitions whose stored end in the coordination tree is past the end of the files here."""

from __future__ import annotations

from attrs import frozen

from logd.coord import paths
from logd.errors import LogdError


@frozen
class LostLog:
    """A partition that is not served, since ids would be given twice otherwise."""

    topic: str
    partition: int
    #: The uuid of the topic.
    uuid: str
    #: The broker whose node names the partition: this one, or one that the topic's entry does not list any more.
    broker: int
    #: The stored end in the tree.
    known_end: int
    #: The end of the log that is here, None if there is no log.
    here: int | None
    #: This broker's data directory.
    data: str
    #: The instance id of the data directory that stored the partition, if it was another one.
    other_instance: str | None = None
    #: True if the partition has other replicas, from which it is copied.
    replicated: bool = False

    def reason(self) -> LogdError:
        """Return the error that says why the partition is offline, with the remedies."""
        name = f"{self.topic}-{self.partition}"
        if self.other_instance is not None:
            found = f"{self.data} is not the data directory of instance {self.other_instance}, which stored it"
        elif self.here is None:
            found = f"there is no log of it in {self.data}"
        else:
            found = f"the log in {self.data} ends at {self.here}"
        said = (
            f"{paths.stored_ends(self.uuid, self.broker)} in the coordination tree says that broker {self.broker} "
            f"stored it up to {self.known_end} at least, and {found}"
        )
        back = "the files back (mount the disk, restore the folder or the data directory) and restart the broker"
        if self.replicated:
            return LogdError(
                f"{name} is not served yet: {said}. It is copied from its leader. If it gets none, since no in-sync "
                f"replica is live, put {back}, or see `logd elect {self.topic} --unclean`"
            )
        return LogdError(
            f"{name} is not served, or ids would be given twice: {said}. Put {back}; if they are lost for good, "
            f"`logd repair --broker HOST:PORT {self.topic} {self.partition} --accept-loss` shows the loss and begins "
            "the log again past every id that was given"
        )

    @property
    def first(self) -> int:
        """The first position that is lost."""
        return 0 if self.here is None else self.here

    def loss(self, position: int) -> str:
        """Describe the loss that is accepted when the log begins again at ``position``."""
        kept = "" if self.here is None else "; the files that are here are kept aside, and not served"
        return (
            f"{self.topic}-{self.partition} was stored up to {self.known_end} at least, and "
            + ("there is no log of it" if self.here is None else f"its log ends at {self.here}")
            + f": an unknown number of messages is lost. The log can begin again at {position}{kept}"
        )
