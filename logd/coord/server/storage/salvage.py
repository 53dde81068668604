"""Salvages a damaged durable tree: reports what is lost, and continues without it when told to.

Every valid snapshot and record is used, even behind a damaged one. A lost change is left out, and later ones are
applied as far as they are possible without it. So of a committed position the last valid commit stays. The result
becomes a snapshot behind every change ever made, and all earlier files are kept under other names.
"""

from __future__ import annotations

import re

from attrs import define, field

from logd.coord.server.storage.change_codec import decode_change, decode_pieces, encode_pieces
from logd.coord.server.storage.change_file import decode_head, find_records
from logd.coord.server.storage.folder import DAMAGED_SUFFIX, changes_name, numbers_of, snapshot_name
from logd.coord.server.storage.snapshot_file import decode_snapshot, encode_snapshot
from logd.coord.tree.changes import Change, DataReplaced, Effect, NodeMade, NodeRemoved, SessionClosed, SessionOpened
from logd.coord.tree.pathnames import parent_of
from logd.coord.tree.tree import Tree, TreeSnapshot
from logd.errors import DataDirectoryError
from logd.interfaces import IFileOperations
from logd.log.disk.names import TEMPORARY_SUFFIX, join
from logd.log.recovery.flush_mark import read_mark

#: Anything in damaged bytes that looks like the path of a node; this many are shown.
_PATH = re.compile(rb"/[\x21-\x2e\x30-\x7e][\x21-\x7e]{2,200}")
_MOST_PATHS = 20


@define
class Salvage:
    """The result of a survey of a folder."""

    tree: Tree
    #: Descriptions of the losses, for a person; none when the folder is undamaged.
    losses: list[str] = field(factory=list)
    #: The last change ever made, as far as any file tells.
    last: int = 0


def survey(files: IFileOperations, folder: str) -> Salvage:
    """Read the folder, which this process has locked, and change nothing. Raises DataDirectoryError, OSError."""
    losses: list[str] = []
    names = files.list(folder)
    snapshot = _snapshot(files, folder, names, losses)
    tree = Tree(snapshot)
    found = Salvage(tree, losses, max(snapshot.zxid, read_mark(files, folder)))
    bases = numbers_of("changes", names)
    behind = [base for base in bases if base <= snapshot.zxid]
    for base in bases[max(len(behind) - 1, 0) :]:
        _changes(files, folder, base, base == bases[-1], found)
    if tree.zxid < found.last:
        losses.append(f"changes {tree.zxid + 1:#x} to {found.last:#x} were on the disk and are in no file any more")
    return found


def write(files: IFileOperations, folder: str, found: Salvage) -> None:
    """Make the survey's result the folder's content; earlier files are kept as ``*.damaged``. Raises OSError."""
    zxid = max(found.last, found.tree.zxid) + 1
    target = join(folder, snapshot_name(zxid))
    temporary = target + TEMPORARY_SUFFIX
    if files.exists(temporary):
        files.remove(temporary)
    state = found.tree.snapshot()
    file = files.open(temporary, create=True)
    try:
        file.append([b"".join(encode_snapshot(zxid, encode_pieces(state.sessions, state.nodes)))])
        file.sync_data()
    finally:
        file.close()
    files.rename(temporary, target)
    # From here on every start finds the new snapshot, which is behind everything in the other files.
    files.sync_directory(folder)
    names = files.list(folder)
    others = [snapshot_name(each) for each in numbers_of("snapshot", names) if each != zxid]
    for name in [*others, *map(changes_name, numbers_of("changes", names))]:
        files.rename(join(folder, name), join(folder, name + DAMAGED_SUFFIX))
    files.sync_directory(folder)


def _snapshot(files: IFileOperations, folder: str, names: list[str], losses: list[str]) -> TreeSnapshot:
    """Return the newest valid one. A damaged one is a loss only if no files of changes lead up to it."""
    for zxid in reversed(numbers_of("snapshot", names)):
        try:
            read, pieces = decode_snapshot(_read(files, join(folder, snapshot_name(zxid))))
            if read != zxid:
                raise ValueError(f"its head says {read:#x}")
        except ValueError as error:
            losses.append(f"{snapshot_name(zxid)} is damaged: {error}")
            continue
        sessions, nodes = decode_pieces(pieces)
        return TreeSnapshot(zxid, nodes, tuple(sessions))
    return TreeSnapshot()


def _changes(files: IFileOperations, folder: str, base: int, is_last: bool, found: Salvage) -> None:
    """Apply the changes of one file, as far as they are valid and possible."""
    name, tree = changes_name(base), found.tree
    data = _read(files, join(folder, name))
    try:
        head = decode_head(data)
    except ValueError as error:
        raise DataDirectoryError(f"{join(folder, name)}: {error}") from error
    if base > tree.zxid:
        found.losses.append(f"changes {tree.zxid + 1:#x} to {base:#x} are in no file")
    if head is None or head.base != base:
        if data and not (is_last and found.last <= base):
            found.losses.append(f"{name}: its head is damaged, so that none of its {len(data)} bytes can be checked")
        return
    end = 0
    for record in find_records(data, head):
        found.last = max(found.last, record.flushed, record.zxid)
        end = record.end
        if record.zxid <= tree.zxid:
            continue
        if record.skipped or record.zxid > max(tree.zxid, base) + 1:
            bytes_lost = data[record.at - record.skipped : record.at]
            found.losses.append(
                f"{name}: changes {max(tree.zxid, base) + 1:#x} to {record.zxid - 1:#x} are lost, "
                f"{record.skipped} bytes at byte {record.at - record.skipped}{_paths(bytes_lost)}"
            )
        _make(tree, decode_change(record.zxid, record.change), found.losses)
    rest = data[end:]
    if end and rest and (not is_last or found.last > tree.zxid):
        found.losses.append(f"{name}: {len(rest)} bytes at byte {end} are damaged{_paths(rest)}")


def _make(tree: Tree, change: Change, losses: list[str]) -> None:
    """Apply the possible part of a change, although earlier ones may be lost."""
    for effect in change.effects:
        for possible in _possible(tree, effect, change, losses):
            tree.zxid = change.zxid - 1
            tree.replay(Change(change.zxid, change.time_ms, change.session_id, (possible,)))
    tree.zxid = change.zxid


def _possible(tree: Tree, effect: Effect, change: Change, losses: list[str]) -> list[Effect]:
    """Return the effects that are possible on the current tree."""
    if isinstance(effect, SessionOpened):
        return [effect]
    if isinstance(effect, SessionClosed):
        return [effect] if change.session_id in tree.sessions else []
    there = effect.path in tree.nodes
    if isinstance(effect, NodeRemoved):
        return _removals(tree, effect.path) if there else []
    parent = tree.nodes.get(parent_of(effect.path))
    if isinstance(effect, NodeMade):
        if effect.ephemeral and change.session_id not in tree.sessions:
            return []  # the start of its session is lost, so nothing would ever end the node
        if parent is not None:
            return [*(_removals(tree, effect.path) if there else ()), effect]
    elif there:
        return [effect]
    elif isinstance(effect, DataReplaced) and parent is not None:
        return [NodeMade(effect.path, effect.data, parent.acl, False)]
    losses.append(f"change {change.zxid:#x} cannot be applied: the node or its parent is lost: {effect.path[:200]}")
    return []


def _removals(tree: Tree, path: str) -> list[Effect]:
    """Return the removal of a node and everything below it, deepest first."""
    below = [each for each in tree.nodes if each.startswith(f"{path}/")]
    return [NodeRemoved(each) for each in sorted([path, *below], key=lambda each: -each.count("/"))]


def _paths(data: bytes) -> str:
    """Return a text with the paths that appear in damaged bytes."""
    paths = list(dict.fromkeys(match.decode() for match in _PATH.findall(data)))
    if not paths:
        return ""
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    return f"; they seem to be about {', '.join(paths[:_MOST_PATHS])}{more}"


def _read(files: IFileOperations, path: str) -> bytes:
    file = files.open_for_reading(path)
    try:
        file.drop_cache()
        return file.read_at(0, file.size())
    finally:
        file.close()
