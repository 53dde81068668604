"""``logd zookeeper --salvage``: shows what can be saved of a damaged coordination tree, and saves it after asking."""

from __future__ import annotations

import os
import time

import click

from logd.cli.terminal.prompts import ask
from logd.coord.server.storage.folder import LOCK, open_folder
from logd.coord.server.storage.salvage import Salvage, survey, write
from logd.errors import DataDirectoryError
from logd.interfaces import IFile
from logd.log.disk.local_files import LocalFiles
from logd.plurals import counted

#: A broker that tries to open its damaged tree locks the folder for a moment, every ten seconds.
_LOCK_SECONDS = 5.0
_LOCK_POLL_SECONDS = 0.1


def salvage_tree(folder: str, yes: bool) -> int:
    """Show what is lost, ask, and write what can be saved. Return the exit status: 0 when the folder is sound."""
    files = LocalFiles()
    if not os.path.exists(os.path.join(folder, LOCK)):
        raise DataDirectoryError(
            f"{folder} has no coordination tree; a broker's own is in the folder 'coordination' of its data directory"
        )
    lock = _locked(files, folder)
    try:
        found = survey(files, folder)
        if not found.losses:
            click.echo(f"the coordination tree in {folder} is sound: there is nothing to salvage")
            return 0
        _show(folder, found)
        if not (yes or ask("Continue without what is lost?", "--yes")):
            return 1
        write(files, folder, found)
    except OSError as error:
        raise DataDirectoryError(f"the coordination tree in {folder} cannot be saved: {error}") from error
    finally:
        lock.close()
    click.echo("saved: the damaged files are kept as *.damaged; start the server, or wait ten seconds if it is running")
    return 0


def _show(folder: str, found: Salvage) -> None:
    click.echo(f"the coordination tree in {folder} is damaged:")
    for loss in found.losses:
        click.echo(f"  {loss}")
    tree = found.tree
    click.echo(f"Saved are {counted(len(tree.nodes), 'node')} and {counted(len(tree.sessions), 'session')}.")
    click.echo(
        "If a lost change stored a group's position, the group goes on from its previous position and gets messages "
        "again. If it created a topic, brokers that store the topic register it again. If it deleted a topic, the "
        "topic is back."
    )


def _locked(files: LocalFiles, folder: str) -> IFile:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return open_folder(files, folder)
        except DataDirectoryError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_POLL_SECONDS)
