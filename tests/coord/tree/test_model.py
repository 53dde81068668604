"""Holds the tree to a plain model of it through random requests, and replays and snapshots to the tree."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import CoordinationError, NoNode
from logd.coord.records import (
    Check,
    Children,
    Create,
    Delete,
    EventType,
    Exists,
    GetChildren,
    GetData,
    Multi,
    NodeData,
    Operation,
    Request,
    SetData,
    SetWatches,
)
from logd.coord.tree.changes import Change
from logd.coord.tree.outcome import MultiFailed, Outcome
from logd.coord.tree.tree import Tree, TreeSnapshot
from tests.coord.tree.model import Events, Model

# Few names and few versions, so that requests meet each other.
_NUMBERED = [f"/{number:010d}" for number in range(3)] + [f"/a/b{number:010d}" for number in range(3)]
PATHS = st.sampled_from(
    ["/", "/a", "/a", "/b", "/a/a", "/a/b", "/a/a/a", "/b/a", "/zookeeper", "/zookeeper/x", *_NUMBERED]
)
NEW = st.sampled_from(["/a", "/a", "/b", "/a/a", "/a/b", "/a/a/a", "/b/a", "/zookeeper/x", *_NUMBERED])
VERSIONS = st.sampled_from([-1, -1, -1, 0, 1, 2])
DATA = st.binary(max_size=3)
CREATES = st.builds(Create, NEW, DATA, ephemeral=st.booleans(), sequence=st.sampled_from([False, False, True]))
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    CREATES,
    CREATES,
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(SetData, PATHS, DATA, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)


class TreeMachine(RuleBasedStateMachine):
    """The tree and the model, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = Tree()
        self.model = Model()
        self.now = 1_000
        self.changes: list[Change] = []
        self.snapshot = TreeSnapshot()

    def pick(self, data: Any) -> int:
        """Return one of the open sessions."""
        session: int = data.draw(st.sampled_from(sorted(self.tree.sessions)))
        return session

    def took(self, outcome: Outcome, events: Events) -> None:
        """Check the outcome's change and notifications."""
        if outcome.change is not None:
            self.changes.append(outcome.change)
            assert outcome.change.zxid == outcome.zxid
        told: Events = {}
        for session, event, _ in outcome.notifications:
            told.setdefault(session, []).append((event.type, event.path))
        assert told == events
        self.now += 7

    @initialize()
    def begin(self) -> None:
        """Open a first session."""
        self.open()

    @precondition(lambda self: len(self.tree.sessions) < 3)
    @rule()
    def open(self) -> None:
        """Open a session; its id is new."""
        outcome = self.tree.open_session(5_000, b"p" * 16, self.now)
        self.model.zxid += 1
        assert outcome.change is not None
        assert outcome.change.session_id == outcome.zxid == self.model.zxid
        self.took(outcome, {})

    @precondition(lambda self: len(self.tree.sessions) > 1)
    @rule(data=st.data())
    def end(self, data: Any) -> None:
        """End a session."""
        session = self.pick(data)
        outcome = self.tree.close_session(session, self.now)
        self.took(outcome, self.model.end(session, self.now))
        assert isinstance(self.tree.execute(session, (), GetData("/"), self.now).answer, CoordinationError)

    @rule(data=st.data(), operation=OPERATIONS)
    def write(self, data: Any, operation: Operation) -> None:
        """Send one operation alone."""
        session = self.pick(data)
        outcome = self.tree.execute(session, (), operation, self.now)
        try:
            results, events = self.model.run(session, [operation], self.now)
        except CoordinationError as error:
            assert type(outcome.answer) is type(error), (outcome.answer, error)
            assert outcome.change is None
            self.took(outcome, {})
        else:
            assert outcome.answer == results[0], (outcome.answer, results)
            self.took(outcome, events)

    @rule(data=st.data(), operations=st.lists(OPERATIONS, max_size=5))
    def write_several(self, data: Any, operations: list[Operation]) -> None:
        """Send several operations, of which all or none are done."""
        session = self.pick(data)
        outcome = self.tree.execute(session, (), Multi(tuple(operations)), self.now)
        try:
            results, events = self.model.run(session, operations, self.now)
        except CoordinationError as error:
            assert isinstance(outcome.answer, MultiFailed), (outcome.answer, error)
            assert type(outcome.answer.error) is type(error), (outcome.answer, error)
            index: int = error.index  # type: ignore[attr-defined]
            expected = [0] * index + [error.code] + [-2] * (len(operations) - index - 1)
            assert list(outcome.answer.codes()) == expected
            assert outcome.change is None
            self.took(outcome, {})
        else:
            assert outcome.answer == tuple(results), (outcome.answer, results)
            self.took(outcome, events)

    @rule(data=st.data(), path=PATHS, kind=st.sampled_from([GetData, Exists, GetChildren]), watch=st.booleans())
    def read(self, data: Any, path: str, kind: Any, watch: bool) -> None:
        """Read a node, and perhaps leave a watch."""
        session = self.pick(data)
        request: Request = kind(path, watch)
        outcome = self.tree.execute(session, (), request, self.now)
        there = path in self.model.nodes
        if watch and (there or kind is Exists):
            self.model.watches.add((session, "children" if kind is GetChildren else "data", path))
        answer = outcome.answer
        if not there:
            assert isinstance(answer, NoNode)
        elif kind is GetData:
            assert answer == NodeData(self.model.nodes[path].data, self.model.stat(path))
        elif kind is Exists:
            assert answer == self.model.stat(path)
        else:
            assert isinstance(answer, Children)
            assert sorted(answer.names) == sorted(self.model.children(path))
            assert answer.stat == self.model.stat(path)
        self.took(outcome, {})

    @rule(data=st.data(), path=NEW)
    def watch_all(self, data: Any, path: str) -> None:
        """Leave every watch that tells of a node."""
        session = self.pick(data)
        parent = path.rpartition("/")[0] or "/"
        requests: list[Any] = [GetChildren(parent, True), GetChildren(path, True), Exists(path, True)]
        for request in requests:
            outcome = self.tree.execute(session, (), request, self.now)
            kind = "data" if isinstance(request, Exists) else "children"
            if kind == "data" or request.path in self.model.nodes:
                self.model.watches.add((session, kind, request.path))
            self.took(outcome, {})

    @rule(data=st.data())
    def disconnect(self, data: Any) -> None:
        """Lose a connection, and its watches."""
        session = self.pick(data)
        self.tree.forget_watches(session)
        self.model.forget(session)

    @rule(data=st.data(), path=PATHS, kind=st.sampled_from(["data", "exists", "children"]), back=st.integers(0, 6))
    def watch_again(self, data: Any, path: str, kind: str, back: int) -> None:
        """Leave a watch from before a reconnection: it fires at once if its node has changed since."""
        session = self.pick(data)
        seen = max(0, self.model.zxid - back)
        kinds: dict[str, Any] = {kind: (path,)}
        outcome = self.tree.execute(session, (), SetWatches(seen, **kinds), self.now)
        node = self.model.nodes.get(path)
        missed = None
        if kind == "exists":
            missed = EventType.CREATED if node else None
        elif node is None:
            missed = EventType.DELETED
        elif kind == "data" and node.modified_zxid > seen:
            missed = EventType.CHANGED
        elif kind == "children" and node.list_zxid > seen:
            missed = EventType.CHILDREN
        if missed is None:
            self.model.watches.add((session, "children" if kind == "children" else "data", path))
        self.took(outcome, {session: [(missed, path)]} if missed else {})

    @rule()
    def take_snapshot(self) -> None:
        """Take a snapshot; later changes come behind it."""
        self.snapshot = self.tree.snapshot()
        self.changes.clear()

    @rule()
    def restart(self) -> None:
        """Make the tree anew from the last snapshot and the changes since; watches are gone."""
        before = self.tree.snapshot()
        self.tree = Tree.restore(self.snapshot, self.changes)
        assert self.tree.snapshot() == before
        self.model.watches.clear()

    @invariant()
    def agree(self) -> None:
        """Check that every node is there with its Stat, every watch, and nothing else."""
        assert self.tree.zxid == self.model.zxid
        assert set(self.tree.nodes) == set(self.model.nodes)
        assert self.tree.data_bytes == sum(len(node.data) for node in self.model.nodes.values())
        for path in self.model.nodes:
            assert self.tree.stat(path) == self.model.stat(path), path
        owners: dict[int, set[str]] = {}
        for path, node in self.model.nodes.items():
            if node.owner:
                owners.setdefault(node.owner, set()).add(path)
        assert {session: set(paths) for session, paths in self.tree.ephemerals.items()} == owners
        assert len(self.tree.watches.data) + len(self.tree.watches.children) == len(self.model.watches)


class ModelTests(SynchronousTestCase):
    """The tree and the model under random requests."""

    def test_the_tree_agrees_with_the_model(self) -> None:
        """The machine makes requests of several sessions, roll-backs, lost connections and restarts."""
        run_state_machine_as_test(
            TreeMachine, settings=settings(max_examples=100, stateful_step_count=50, deadline=None)
        )
