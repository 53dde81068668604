"""The state file: locked by one collector and replaced atomically, so that a crash leaves the old or the new state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from os.path import basename, dirname, join

from logd.collect.state import BadState, State, decode_state, encode_state
from logd.errors import LogdError
from logd.interfaces import IFile, IFileOperations
from logd.log.disk.atomic import read_file, replace_file
from logd.log.disk.names import TEMPORARY_SUFFIX

LOCK_SUFFIX = ".lock"
#: Limit in bytes; the state of a hundred thousand files with long names is smaller.
_LARGEST = 1 << 30


class StateInUse(LogdError):
    """Another process uses the state file: both would send the same lines."""


def default_path(topic: str, broker: str, patterns: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the default path of the state file, one for each combination of topic, broker and patterns.

    It is ``$XDG_STATE_HOME/logd/collect-<hash>.json``, where XDG_STATE_HOME is ``~/.local/state`` by default.
    """
    said = "\0".join((topic, broker, *sorted(set(patterns))))
    base = environment.get("XDG_STATE_HOME") or join(environment.get("HOME") or "/", ".local", "state")
    return join(
        base, "logd", f"collect-{blake2b(said.encode(errors='surrogateescape'), digest_size=8).hexdigest()}.json"
    )


def own_files(path: str) -> frozenset[str]:
    """Return the files that a state file at ``path`` consists of."""
    return frozenset((path, path + LOCK_SUFFIX, path + TEMPORARY_SUFFIX))


class StateFile:
    """One state file. Calls block on the disk."""

    def __init__(self, files: IFileOperations, path: str, topic: str) -> None:
        """``path`` is absolute."""
        self._files = files
        self._path = path
        self._topic = topic
        self._lock: IFile | None = None

    def open(self) -> State | None:
        """Lock the file and return its state, or None when there is none yet. Raises StateInUse and BadState."""
        folder = dirname(self._path)
        try:
            self._make_folders(folder)
            self._lock = self._files.lock(self._path + LOCK_SUFFIX)
            content = read_file(self._files, self._path, _LARGEST)
        except BlockingIOError:
            raise StateInUse(
                f"another process collects with the state file {self._path}: stop it, or give another --state"
            ) from None
        except OSError as error:
            raise BadState(f"the state file {self._path} cannot be used: {error.strerror or error}") from error
        if content is None:
            return None
        try:
            return decode_state(content, self._topic)
        except BadState as error:
            raise BadState(f"the state file {self._path} {error}") from None

    def save(self, state: State) -> None:
        """Save the state, which then survives a loss of power. Raises OSError, with the old state intact."""
        replace_file(self._files, dirname(self._path), basename(self._path), encode_state(self._topic, state))

    def close(self) -> None:
        """Release the lock."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def _make_folders(self, folder: str) -> None:
        if not self._files.exists(folder):
            self._make_folders(dirname(folder))
            self._files.make_directory(folder)
