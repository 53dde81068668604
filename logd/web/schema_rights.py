"""The rights that the schema registry's pages ask for.

Every user may read schemas: a message is of no use without its schema. A schema of a topic's subject is registered by
those who may write to the topic and deleted by those who may delete it. All else needs the right to alter the cluster.
"""

from __future__ import annotations

from urllib.parse import unquote

from logd.schema_registry.rest.resource import CHILDREN
from logd.security.access_rules import Operation, ResourceType
from logd.security.principals import ANONYMOUS
from logd.web.bounded_request import BoundedRequest

#: The first parts of the paths.
SCHEMA_PATHS = frozenset(CHILDREN)
_SUFFIXES = ("-key", "-value")


def may_use_schemas(request: BoundedRequest) -> bool:
    """Return whether the one who asks may do this."""
    rights = request.rights
    if rights is None or rights.authorizer.open:
        return True
    try:
        path = [unquote(each.decode("ascii"), errors="strict") for each in request.path.split(b"/")[1:]]
    except UnicodeDecodeError:
        return False
    if len(path) > 1 and not path[-1]:
        path.pop()
    if _reads(request.method, path):
        return rights.requester.principal != ANONYMOUS or rights.may(Operation.DESCRIBE, ResourceType.CLUSTER)
    if rights.may(Operation.ALTER, ResourceType.CLUSTER):
        return True
    topic = _topic(path)
    needed = {b"POST": Operation.WRITE, b"DELETE": Operation.DELETE}.get(request.method)
    return bool(topic) and needed is not None and rights.may(needed, ResourceType.TOPIC, topic)


def _reads(method: bytes, path: list[str]) -> bool:
    """Return whether a request changes nothing: some that ask have a body, and so the method POST."""
    return (
        method in (b"GET", b"HEAD")
        or (method == b"POST" and path[0] == "compatibility")
        or (method == b"POST" and path[0] == "subjects" and len(path) == 2)
    )


def _topic(path: list[str]) -> str:
    """Return the topic to whose subject a path belongs, "" for none."""
    if len(path) < 2 or path[0] != "subjects":
        return ""
    return next((path[1].removesuffix(each) for each in _SUFFIXES if path[1].endswith(each)), "")
