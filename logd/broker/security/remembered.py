"""Remembers, in the data directory, that the cluster has users or rules: a start while the tree is away stays closed.

Without it a broker that serves what it has before it reaches the tree would take such a cluster for an open one. The
file ``secured`` is there while there are users or rules.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import define, field
from twisted.logger import Logger

from logd.broker.security.authorizer import Authorizer
from logd.interfaces import IFileOperations, IThreads
from logd.log.disk.atomic import replace_file
from logd.log.disk.names import SECURED, join


@define(eq=False)
class RememberedSecurity:
    """The file, kept as the authorizer says. It is read in ``open``, which blocks, and written on a thread."""

    _log: ClassVar[Logger] = Logger()

    _files: IFileOperations
    _folder: str
    _threads: IThreads
    _authorizer: Authorizer
    _is_there: bool = field(default=False, init=False)
    _writing: bool = field(default=False, init=False)

    def open(self) -> None:
        """Read the file, and follow the authorizer from now on."""
        self._is_there = self._files.exists(join(self._folder, SECURED))
        if self._is_there:
            self._authorizer.expect_users()
        self._authorizer.on_change(self._changed)

    def _changed(self) -> None:
        wanted = self._authorizer.has_users or len(self._authorizer.rules) > 0
        if wanted == self._is_there or self._writing:
            return
        self._writing = True
        self._threads.run(lambda: self._write(wanted), lambda _, error: self._written(wanted, error))

    def _write(self, wanted: bool) -> None:
        if wanted:
            replace_file(self._files, self._folder, SECURED, b"the cluster has users or access rules\n")
        else:
            self._files.remove(join(self._folder, SECURED))
            self._files.sync_directory(self._folder)

    def _written(self, wanted: bool, error: BaseException | None) -> None:
        self._writing = False
        if error is not None:
            self._log.warn(
                "cannot note in {folder} that the cluster has users ({error}): a start while the coordination tree is "
                "away would be open; set security.required = true",
                folder=self._folder,
                error=str(error),
            )
            return
        self._is_there = wanted
        self._changed()
