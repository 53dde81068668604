"""``logd zookeeper --salvage``: what of a damaged coordination tree can be saved, shown, and saved when told to."""

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

#: A broker that tries to open its damaged tree has the folder for a moment, every ten seconds.
_LOCK_SECONDS = 5.0
_LOCK_POLL_SECONDS = 0.1


def salvage_tree(folder: str, yes: bool) -> int:
    """Show what is lost, ask, and write what is saved; return the status: 0 when the folder is sound by then."""
    files = LocalFiles()
    if not os.path.exists(os.path.join(folder, LOCK)):
        raise DataDirectoryError(
            f"{folder} has no coordination tree; a broker's own is in the folder 'coordination' of its data"
        )
    lock = _locked(files, folder)
    try:
        found = survey(files, folder)
        if not found.losses:
            click.echo(f"the coordination tree in {folder} is sound: nothing need be saved")
            return 0
        _show(folder, found)
        if not (yes or ask("Go on without what is lost?", "--yes")):
            return 1
        write(files, folder, found)
    except OSError as error:
        raise DataDirectoryError(f"the coordination tree in {folder} cannot be saved: {error}") from error
    finally:
        lock.close()
    click.echo(
        "saved: the files of before are kept as *.damaged; start its server, or wait ten seconds for one that runs"
    )
    return 0


def _show(folder: str, found: Salvage) -> None:
    click.echo(f"the coordination tree in {folder} is damaged:")
    for loss in found.losses:
        click.echo(f"  {loss}")
    tree = found.tree
    click.echo(f"{len(tree.nodes)} nodes and {len(tree.sessions)} sessions are saved.")
    click.echo(
        "Where a lost change was a group's position, the group goes on from the position before it and gets messages "
        "again; where it made a topic, brokers that store the topic write it anew; where it deleted one, the topic is "
        "there again."
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
