"""Sees every change of the tree, and who is given messages: commits and deliveries are their owners' alone."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.coord import paths
from logd.coord.tree.changes import Change, DataReplaced, NodeMade
from logd.testing.memorytree import MemoryTree
from tests.simulation.ledger import Ledger
from tests.simulation.violation import check
from tests.simulation.world import World


@define(eq=False)
class Overseer:
    """Knows the tree from inside."""

    world: World
    tree: MemoryTree
    ledger: Ledger
    #: Sessions that were ended although their clients were heard of: those cannot know.
    ended: set[int] = field(factory=set, init=False)
    changes: int = field(default=0, init=False)
    #: Called once, at the next change, before it is journalled.
    at_next_change: Callable[[], None] | None = field(default=None, init=False)

    def watch(self) -> None:
        """See the changes of the tree that has just been started."""
        server = self.tree.server
        assert server is not None
        storage = server.storage
        append = storage.append

        def seen(change: Change) -> None:
            self._changed(change)
            append(change)

        storage.append = seen  # type: ignore[method-assign]  # what journals a change is told of it first

    def owner(self, group: str, topic: str, partition: int) -> int:
        """The session that owns a partition, 0 for none; -1 while nobody can tell."""
        server = self.tree.server
        if server is None:
            return -1
        node = server.tree.nodes.get(paths.group_owner(group, topic, partition))
        return 0 if node is None else node.ephemeral_owner

    def taken(self, group: str, who: str, session: int, topic: str, partition: int) -> None:
        """An application is given a message."""
        owner = self.owner(group, topic, partition)
        if owner > 0 and owner != session and session not in self.ended:
            check(False, "a message was delivered by who does not own its partition", who, topic, partition)

    def _changed(self, change: Change) -> None:
        self.changes += 1
        hook, self.at_next_change = self.at_next_change, None
        if hook is not None:
            hook()
        for effect in change.effects:
            if not isinstance(effect, NodeMade | DataReplaced):
                continue
            self.world.trace.note(f"{change.session_id:x}", type(effect).__name__, (effect.path, effect.data))
            parts = effect.path.split("/")
            if len(parts) == 6 and parts[1] == "consumers" and parts[3] == "offsets":
                _, _, group, _, topic, partition = parts
                check(
                    self.owner(group, topic, int(partition)) == change.session_id,
                    "a commit by who does not own the partition",
                    effect.path,
                    change.session_id,
                )
                if effect.data:
                    self.ledger.commit(group, topic, int(partition), int(effect.data))
