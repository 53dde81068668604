"""Valid paths of the tree by ZooKeeper's rules, and the two parts of a path."""

from __future__ import annotations

import re

from logd.coord.errors import BadArguments

#: ZooKeeper's PathUtils refuses control characters, surrogates (so all beyond U+FFFF) and the private use area.
_FORBIDDEN = re.compile(r"[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
_EMPTY_OR_RELATIVE = re.compile(r"/\.{0,2}(/|\Z)")

#: Nodes of every tree that cannot be deleted.
SPECIAL = ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")


def check_path(path: str) -> str:
    """Return ``path`` if it is absolute and all its names are allowed, else raise BadArguments."""
    if path != "/" and (not path.startswith("/") or _EMPTY_OR_RELATIVE.search(path) or _FORBIDDEN.search(path)):
        raise BadArguments(
            f"{path[:200]!r} is no path of a node: '/' and names with '/' between them, none empty, '.' or '..'", path
        )
    return path


def parent_of(path: str) -> str:
    """Return the path of a node's parent; that of the root is the root."""
    return path[: path.rindex("/")] or "/"


def name_of(path: str) -> str:
    """Return a node's name in its parent; that of the root is empty."""
    return path[path.rindex("/") + 1 :]
