"""Checks of every change of the tree and every delivery: only a partition's owner may commit and get messages."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from logd.coord import paths
from logd.coord.tree.changes import Change, DataReplaced, NodeMade, NodeRemoved
from logd.testing.memory.tree import MemoryTree
from tests.simulation.ledger import Ledger
from tests.simulation.violation import check
from tests.simulation.world import World

#: A group's partition.
GroupPlace = tuple[str, str, int]


@frozen
class Turn:
    """The beginning of a partition's tenure by a claim of ``session``; 0 for a position moved by an operator."""

    zxid: int
    session: int


@define(eq=False)
class Overseer:
    """An observer inside the tree's server."""

    world: World
    tree: MemoryTree
    ledger: Ledger
    #: Sessions that were ended while their clients were in contact: the clients cannot know it yet.
    ended: set[int] = field(factory=set, init=False)
    #: The sessions of operators.
    operators: set[int] = field(factory=set, init=False)
    changes: int = field(default=0, init=False)
    #: Called once, at the next change, before it is journalled.
    at_next_change: Callable[[], None] | None = field(default=None, init=False)
    _turns: dict[GroupPlace, list[Turn]] = field(factory=dict, init=False)
    #: Owners whose nodes an operator has removed: they cannot know it either, until they claim again.
    _robbed: set[tuple[int, GroupPlace]] = field(factory=set, init=False)

    #: Places whose node holds no position.
    _spoiled: set[GroupPlace] = field(factory=set, init=False)

    def watch(self) -> None:
        """Observe the tree that has just been started, and forget the changes that it has lost."""
        server = self.tree.server
        assert server is not None
        storage = server.storage
        append = storage.append

        def seen(change: Change) -> None:
            self._changed(change)
            append(change)

        storage.append = seen  # type: ignore[method-assign]  # sees a change before it is journalled
        for place, turns in self._turns.items():
            progress = self.ledger.progress(*place)
            progress.committed = self._position(place)
            if turns and turns[-1].zxid > server.tree.zxid:
                progress.reached = progress.handled
            self._turns[place] = [turn for turn in turns if turn.zxid <= server.tree.zxid]
        self._spoiled = {
            place
            for place in self._turns
            if (node := server.tree.nodes.get(paths.group_offset(*place))) is not None
            and node.data
            and _number(node.data) is None
        }

    def owner(self, group: str, topic: str, partition: int) -> int:
        """Return the session that owns a partition, 0 for none; -1 while the tree does not run."""
        server = self.tree.server
        if server is None:
            return -1
        node = server.tree.nodes.get(paths.group_owner(group, topic, partition))
        return 0 if node is None else node.ephemeral_owner

    def _position(self, place: GroupPlace) -> int:
        """Return the stored position, 0 for none yet."""
        assert self.tree.server is not None
        node = self.tree.server.tree.nodes.get(paths.group_offset(*place))
        return 0 if node is None else _number(node.data) or 0

    def taken(self, group: str, who: str, session: int, topic: str, partition: int) -> None:
        """Check that the session of an application that gets a message owns its partition."""
        owner = self.owner(group, topic, partition)
        if owner > 0 and owner != session and session not in self.ended:
            robbed = (session, (group, topic, partition)) in self._robbed
            check(robbed, "a consumer delivered a message of a partition that another one owns", who, topic, partition)

    def _changed(self, change: Change) -> None:
        self.changes += 1
        hook, self.at_next_change = self.at_next_change, None
        if hook is not None:
            hook()
        claimed = set()
        for effect in change.effects:
            if not isinstance(effect, NodeMade | DataReplaced | NodeRemoved):
                continue
            data = b"" if isinstance(effect, NodeRemoved) else effect.data
            self.world.trace.note(f"{change.session_id:x}", type(effect).__name__, (effect.path, data))
            parts = effect.path.split("/")
            if len(parts) != 6 or parts[1] != "consumers":
                continue
            place = parts[2], parts[4], int(parts[5])
            if parts[3] == "owners":
                if isinstance(effect, NodeMade):
                    claimed.add(place)
                    self._claimed(change, place)
                    self._robbed.discard((change.session_id, place))
                elif change.session_id in self.operators:
                    claims = [turn.session for turn in self._turns.get(place, ()) if turn.session]
                    self._robbed.update((session, place) for session in claims[-1:])
            elif parts[3] == "offsets" and not isinstance(effect, NodeRemoved):
                if place in claimed:
                    continue
                if change.session_id in self.operators:
                    self._moved(change, place, _number(data))
                else:
                    self._committed(change, place, data)

    def _claimed(self, change: Change, place: GroupPlace) -> None:
        """Begin a tenure, which must begin at the position left by the former one or by an operator."""
        check(place not in self._spoiled, "a claim of a partition that has no valid position", place, change.session_id)
        self._turns.setdefault(place, []).append(Turn(change.zxid, change.session_id))
        progress = self.ledger.progress(*place)
        position = self._position(place)
        check(position == progress.committed, "a claim changed a position", place, position, progress.committed)
        progress.reached = position
        assert self.tree.server is not None
        node = self.tree.server.tree.nodes.get(paths.group_offset(*place))
        # Still so where the first owner has stored the log's start, and handled nothing from there.
        progress.unknown = progress.unknown or node is None or not node.data

    def _moved(self, change: Change, place: GroupPlace, position: int | None) -> None:
        """Note a position written by an operator; with None, no position, the place must not be claimed meanwhile."""
        self._turns.setdefault(place, []).append(Turn(change.zxid, 0))
        if position is None:
            self._spoiled.add(place)
        else:
            self._spoiled.discard(place)
            self.ledger.move(*place, position)

    def _committed(self, change: Change, place: GroupPlace, data: bytes) -> None:
        turns = self._turns.get(place)
        session = turns[-1].session if turns else -1
        check(
            session != 0,
            "a commit by a member that claimed before an operator moved the position",
            place,
            change.session_id,
            data,
        )
        owner = self.owner(*place)
        # An owner whose node was removed, and that has no successor, may commit: nothing is lost by it.
        followed = (change.session_id, place) not in self._robbed or session != change.session_id
        check(
            owner == change.session_id or (owner == 0 and not followed),
            "a commit by a member that does not own the partition",
            place,
            change.session_id,
        )
        if data:
            self.ledger.commit(*place, int(data))


def _number(data: bytes) -> int | None:
    """Return the position in a node; None for a value that is none, written by an operator."""
    return int(data) if data.isdigit() and len(data) < 20 else None
