"""One random life of a durable tree: sessions that make, change and remove nodes, snapshots, crashes, recoveries."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.task import Clock
from zope.interface import implementer

from logd.coord.records import Create, Delete, Multi, Operation, SetAcl, SetData, WatchEvent
from logd.coord.server.storage.durable_tree import Storage
from logd.coord.server.storage.journal import JournalDisk
from logd.coord.tree.attachment import Attachment
from logd.coord.tree.interfaces import CutReason, IAttached
from logd.coord.tree.nodes import Node
from logd.coord.tree.outcome import Outcome
from logd.coord.tree.sessions import TreeSession
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import SessionLimits, TreeHost
from logd.errors import DataDirectoryError
from logd.testing.memory.disk import PowerLoss
from logd.testing.memory.files import MemoryFiles
from tests.log.threads import Threads

FOLDER = "/coordination"
NAMES = ("/a", "/b", "/a/c", "/a/d", "/b/e")


class Broken(AssertionError):
    """An acknowledged change is missing, or the tree is in a state that it never was in."""


@implementer(IAttached)
class Peer:
    """A connection that ignores all that it is told."""

    def notified(self, zxid: int, event: WatchEvent) -> None:
        """See IAttached."""

    def cut(self, reason: CutReason) -> None:
        """See IAttached."""


@define(eq=False)
class TreeHistory:
    """Drives one durable tree over one disk from one seed."""

    seed: int
    skipped: frozenset[str] = frozenset()
    random: Random = field(init=False)
    files: MemoryFiles = field(init=False)
    clock: Clock = field(factory=Clock)
    threads: Threads = field(factory=Threads)
    storage: Storage = field(init=False)
    host: TreeHost = field(init=False)
    #: Every state that the tree was in, by its last change.
    states: dict[int, tuple[dict[str, Node], dict[int, TreeSession]]] = field(factory=dict)
    #: The last change that a client was told of.
    told: int = 0
    attachments: list[Attachment] = field(factory=list)
    reports: list[str] = field(factory=list)
    crashes: int = 0
    snapshots: int = 0

    def __attrs_post_init__(self) -> None:
        self.random = Random(self.seed)
        self.clock.advance(1_000_000.0)
        self.files = MemoryFiles(self.random, self.clock.seconds, skipped=set(self.skipped))

    def run(self, steps: int) -> None:
        """Live through ``steps``; raise Broken with the seed when the tree breaks its promise."""
        try:
            self._live(steps)
        except (Broken, DataDirectoryError) as error:
            raise Broken(f"seed {self.seed}: {error}") from error

    def _live(self, steps: int) -> None:
        self._reopen()
        actions: list[Callable[[], None]] = [self._change] * 8 + [self._work] * 5 + [self._deliver] * 5
        actions += [self._turn] * 4 + [self._open_session, self._close_session, self._pass]
        for _ in range(steps):
            try:
                draw = self.random.random()
                if draw < 0.03:
                    self.files.power = self.random.randint(1, 25)
                elif draw < 0.05:
                    self.files.power = 0
                    raise PowerLoss
                elif draw < 0.06:
                    self._stop()
                    self._heal()
                    self._reopen()
                elif draw < 0.065:
                    self.files.room = self.random.randint(0, 400) if self.files.room is None else None
                elif draw < 0.07:
                    self.files.fail_syncs = 1
                elif draw < 0.075:
                    self.files.errors["rename"] = [OSError(errno.EIO, "input/output error")]
                else:
                    self.random.choice(actions)()
                if not self.host.serving:
                    if self.random.random() < 0.5:  # the process ends
                        raise PowerLoss
                    self._recover()
            except PowerLoss:
                self._crash()

    # Steps of sessions.

    def _attachment(self) -> Attachment | None:
        living = [each for each in self.attachments if each.attached]
        return self.random.choice(living) if living else None

    def _operation(self) -> Operation:
        name = self.random.choice(NAMES)
        data = self.random.randbytes(self.random.choice([0, 3, 40]))
        operations: list[Operation] = [
            Create(name, data),
            Create(name, data, ephemeral=True),
            Create(name + "/n", data, sequence=True, ephemeral=self.random.random() < 0.5),
            SetData(name, data),
            Delete(name),
            Delete(name, 0),
        ]
        return self.random.choice(operations)

    def _change(self) -> None:
        attachment = self._attachment()
        if attachment is None:
            self._open_session()
            return
        draw = self.random.random()
        request: Any = self._operation()
        if draw < 0.2:
            request = Multi(tuple(self._operation() for _ in range(self.random.randint(1, 3))))
        elif draw < 0.25:
            request = SetAcl(self.random.choice(NAMES), request.acl if isinstance(request, Create) else Create("/").acl)
        attachment.execute(request, self._answered)
        self._remember()

    def _answered(self, outcome: Outcome) -> None:
        self.told = max(self.told, outcome.zxid)

    def _open_session(self) -> None:
        def opened(attachment: Attachment) -> None:
            self.told = max(self.told, attachment.session.id)
            self.attachments.append(attachment)

        self.host.open_session(Peer(), self.random.choice([4_000, 40_000]), (), opened)
        self._remember()

    def _close_session(self) -> None:
        attachment = self._attachment()
        if attachment is not None:
            attachment.close(lambda: None)
            self._remember()

    def _pass(self) -> None:
        """Let time pass, so that sessions expire."""
        for _ in range(self.random.choice([1, 10])):
            self.clock.advance(0.6)
            self._remember()

    def _turn(self) -> None:
        self.clock.advance(0)
        self._remember()

    def _remember(self) -> None:
        tree = self.host.tree
        # One step can be several changes (expiry): a state in between was never answered to a client, but is kept.
        self.states[tree.zxid] = (dict(tree.nodes), dict(tree.sessions))

    # Steps of the machine.

    def _work(self) -> None:
        if self.threads.works:
            self.threads.work(0 if self.random.random() < 0.7 else self.random.randrange(len(self.threads.works)))

    def _deliver(self) -> None:
        if self.threads.outcomes:
            self.threads.deliver(self.random.randrange(len(self.threads.outcomes)))
            self._remember()

    def _stop(self) -> None:
        self.host.stop()
        closed: list[bool] = []
        self.storage.close(lambda: closed.append(True))
        while not closed:
            self.clock.advance(0.01)
            self.threads.settle()
        self.snapshots += self.storage.snapshots

    def _heal(self) -> None:
        """Repair the disk: another test has a disk that fails at the start."""
        self.files.errors.clear()
        self.files.fail_syncs = 0
        self.files.room = None

    def _crash(self) -> None:
        self.crashes += 1
        self.snapshots += self.storage.snapshots
        while True:
            self.files.restart(self.random.random() < 0.6)
            self._heal()
            if self.random.random() < 0.3:
                self.files.power = self.random.randint(1, 8)
            try:
                self._reopen()
            except PowerLoss:
                continue
            self.files.power = None
            return

    def _reopen(self) -> None:
        self.threads = Threads()
        self.attachments.clear()
        clock = Clock()
        clock.advance(self.clock.seconds())
        self.clock = clock
        disk = JournalDisk(FOLDER, self.files, self.threads, self.clock, self.random.randbytes)
        self.storage = Storage(disk, self.random.choice([1, 300, 2000]), self._report)
        tree = self.storage.open()
        self._check(tree)
        self.states = {zxid: state for zxid, state in self.states.items() if zxid <= tree.zxid}
        self.host = TreeHost(tree, self.storage, self.clock, self.random.randbytes, SessionLimits())
        self.host.start()
        self._remember()
        # The state that is found at a start is shown to the next client.
        self.told = tree.zxid

    def _recover(self) -> None:
        """Go on in the same process with the disk's state, since a sync has failed."""
        self._stop()
        self._heal()
        self.attachments.clear()
        tree = self.storage.open()
        self._check(tree)
        self.states = {zxid: state for zxid, state in self.states.items() if zxid <= tree.zxid}
        self.host.resume(tree)
        self._remember()
        self.told = tree.zxid

    def _check(self, tree: Tree) -> None:
        if tree.zxid < self.told:
            raise Broken(f"change {self.told} was acknowledged, the tree ends with {tree.zxid}")
        if tree.zxid not in self.states:
            if self.states and not min(self.states) <= tree.zxid <= max(self.states):
                raise Broken(f"the tree ends with {tree.zxid}, which never was")
            return
        nodes, sessions = self.states[tree.zxid]
        if dict(tree.nodes) != nodes:
            raise Broken(f"at change {tree.zxid} the nodes are {dict(tree.nodes)}, they were {nodes}")
        if dict(tree.sessions) != sessions:
            raise Broken(f"at change {tree.zxid} the sessions are {dict(tree.sessions)}, they were {sessions}")

    def _report(self, text: str, **fields: object) -> None:
        self.reports.append(text.format(**fields))
