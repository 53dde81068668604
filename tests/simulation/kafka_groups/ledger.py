"""The promises of groups of Kafka clients: who may own, who may commit, and where positions may go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from attrs import define, field, frozen

from logd.coord import paths
from logd.coord.records import Multi
from logd.coord.tree.changes import DataReplaced, NodeMade
from logd.coord.tree.outcome import Outcome
from logd.coord.tree.tree import Tree
from logd.topic import TopicPartition
from tests.simulation.violation import check


@frozen
class Writer:
    """The one who commits, as written in the text beside each position."""

    process: str
    #: -1 for a client that is no member.
    generation: int
    #: The name of a static member.
    instance: str
    #: True if it has sought back on purpose.
    back: bool = False

    def encode(self) -> str:
        """Return the text."""
        return f"{self.process},{self.generation},{self.instance},{self.back:d}"

    @classmethod
    def decode(cls, text: str) -> Writer:
        """Return the writer that ``encode`` has written."""
        process, generation, instance, back = text.split(",")
        return cls(process, int(generation), instance, back == "1")


class Place(NamedTuple):
    """A partition as a group reads it."""

    group: str
    where: TopicPartition


@define(eq=False)
class GroupLedger:
    """Looks at every change of the tree, and at what members are told. Raises Violation."""

    #: Returns whether a group has members with a generation at a broker.
    has_members: Callable[[str, int], bool]
    #: The process that owns each partition in each generation; of a static member its name.
    owners: dict[tuple[Place, int], str] = field(factory=dict)
    #: For each static member the process that has last begun, with its generation and the number of its joining.
    begun: dict[tuple[str, str], tuple[int, int, str]] = field(factory=dict)
    joins: int = 0
    #: The number of positions that there were with the last one that was acknowledged.
    vouched: dict[Place, int] = field(factory=dict)
    #: All positions that the tree has had, with their writers.
    history: dict[Place, list[tuple[int, Writer]]] = field(factory=dict)
    commits: int = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at each transaction when it is done, not when a tree is read from its disk."""
        multi = Tree._multi

        def done(tree: Tree, session: int, identities: Any, request: Multi, now: int) -> Outcome:
            nodes = tree.nodes
            before = {each.path: nodes[each.path].data for each in request.operations if each.path in nodes}
            outcome = multi(tree, session, identities, request, now)
            if outcome.change is not None:
                self._changed(tree, outcome.change.effects, before)
            return outcome

        with mock.patch.object(Tree, "_multi", done):
            yield

    def owns(self, place: Place, generation: int, process: str, instance: str) -> None:
        """Note that a member was given a partition in a generation."""
        owner = instance or process
        former = self.owners.setdefault((place, generation), owner)
        check(former == owner, "a partition has two owners in one generation", place, generation, former, owner)

    def joined(self) -> int:
        """Return the number of a joining, in the order in which brokers answer."""
        self.joins += 1
        return self.joins

    def begins(self, group: str, instance: str, process: str, generation: int, joining: int) -> None:
        """Note that a static member has begun with the positions that it has read."""
        if instance:
            key, mine = (group, instance), (generation, joining, process)
            self.begun[key] = max(self.begun.get(key, mine), mine)

    def restored(self, tree: Tree) -> None:
        """Check the positions of a tree that was read from its disk: what was not acknowledged may be gone."""
        for place, history in self.history.items():
            node = tree.nodes.get(paths.group_offset(place.group, *place.where))
            text = tree.nodes.get(paths.group_metadatum(place.group, *place.where))
            if node is None or text is None:
                check(place not in self.vouched, "an acknowledged position is lost with the tree", place)
                continue
            found = int(node.data), Writer.decode(text.data.decode())
            after = history[max(self.vouched.get(place, 0) - 1, 0) :]
            check(found in after, "an acknowledged position is lost with the tree", place, found)
            history.append(found)

    def mark(self, place: Place) -> int:
        """Return a mark for ``read``: the number of positions that there were before a request."""
        return len(self.history.get(place, ()))

    def read(self, place: Place, mark: int, position: int | None) -> None:
        """Check a position that was read: the one at the mark, or a later one."""
        possible = [each for each, _ in self.history.get(place, ())[max(mark - 1, 0) :]]
        if not mark:
            possible.append(-1)
        check((-1 if position is None else position) in possible, "a committed position is lost", place, position)

    def acknowledged(self, place: Place, position: int, writer: Writer) -> None:
        """Check that a commit that was acknowledged is in the tree."""
        self.commits += 1
        history = self.history.get(place, [])
        check((position, writer) in history, "an acknowledged commit was not stored", place, position, writer)
        number = len(history) - history[::-1].index((position, writer))
        self.vouched[place] = max(self.vouched.get(place, 0), number)

    def _changed(self, tree: Tree, effects: tuple[Any, ...], before: Mapping[str, bytes]) -> None:
        for each in effects:
            if isinstance(each, DataReplaced | NodeMade):
                parts = each.path.split("/")
                if parts[1] == "consumers" and len(parts) == 4 and parts[3] == "generation":
                    former = int(before.get(each.path, b"0"))
                    check(int(each.data) >= former, "a group's generations went back", each.path, former, each.data)
                elif parts[1] == "consumers" and len(parts) == 6 and parts[3] == "offsets":
                    place = Place(parts[2], TopicPartition(parts[4], int(parts[5])))
                    self._committed(tree, place, int(each.data), before.get(each.path))

    def _committed(self, tree: Tree, place: Place, position: int, former: bytes | None) -> None:
        nodes = tree.nodes
        text = nodes[paths.group_metadatum(place.group, *place.where)].data.decode()
        writer = Writer.decode(text)
        claim = nodes.get(paths.group_coordinator(place.group))
        if writer.generation < 0:
            is_used = claim is not None and self.has_members(place.group, int(claim.data))
            check(not is_used, "a client that is no member has committed while the group has members", place, writer)
        else:
            check(claim is not None, "a position was committed without a coordinator", place, writer)
            generation = int(nodes[paths.group_generation(place.group)].data)
            check(generation == writer.generation, "a former generation has committed", place, writer, generation)
            begun = self.begun.get((place.group, writer.instance), (0, 0, writer.process))
            check(begun[2] == writer.process, "a replaced static member has committed", place, writer, begun)
            went_back = former is not None and position < int(former)
            check(not went_back or writer.back, "a committed position went back", place, former, position, writer)
        self.history.setdefault(place, []).append((position, writer))
