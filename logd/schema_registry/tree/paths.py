"""Paths of the schema registry's nodes.

::

    /schemas/last_id                               the highest id given out, in decimal; it never goes down
    /schemas/settings                              the compatibility level and the mode of the registry
    /schemas/ids/<id>                              a schema: type, text, references; never changed
    /schemas/ids/<id>/<subject>                    empty: the subject has a version with this schema
    /schemas/digests/<SHA-256>                     the id of the schema with that digest, in decimal
    /schemas/subjects/<subject>                    the subject's versions, compatibility level and mode
    /schemas/references                            empty; its version counts registrations with references
    /schemas/references/<subject>/<version>.<id>   empty: schema <id> refers to that version

A registration is one multi: it moves ``last_id``, makes the schema's nodes and sets the subject, each at the version
that was read, or does nothing. Values are UTF-8 JSON unless said. Names of subjects are percent-encoded.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from logd.schema_registry.errors import InvalidSubject

ROOT = "/schemas"
LAST_ID = f"{ROOT}/last_id"
SETTINGS = f"{ROOT}/settings"
IDS = f"{ROOT}/ids"
DIGESTS = f"{ROOT}/digests"
SUBJECTS = f"{ROOT}/subjects"
REFERENCES = f"{ROOT}/references"

#: Bytes of a subject's name.
MOST_SUBJECT_BYTES = 512


def segment(subject: str) -> str:
    """Return a subject's name as a part of a path. Raises InvalidSubject."""
    try:
        encoded = subject.encode()
    except UnicodeEncodeError:
        encoded = b""
    if not encoded or len(encoded) > MOST_SUBJECT_BYTES or not subject.isprintable() or subject.startswith(":."):
        raise InvalidSubject(
            f"The specified subject {subject[:100]!a} is not a valid subject: allowed are 1 to "
            f"{MOST_SUBJECT_BYTES} bytes of printable characters, without a context (':.name:')"
        )
    # quote leaves "." as it is; "." and ".." are no names in the tree.
    return quote(subject, safe="").replace(".", "%2E") if set(subject) == {"."} else quote(subject, safe="")


def subject_of(name: str) -> str:
    """Return the subject whose part of a path is ``name``."""
    return unquote(name)


def subject_node(subject: str) -> str:
    """The node of a subject. Raises InvalidSubject."""
    return f"{SUBJECTS}/{segment(subject)}"


def id_node(schema_id: int) -> str:
    """The node of a schema."""
    return f"{IDS}/{schema_id:d}"


def id_subject_node(schema_id: int, subject: str) -> str:
    """The note that a subject has a version with a schema."""
    return f"{IDS}/{schema_id:d}/{segment(subject)}"


def digest_node(digest: str) -> str:
    """The node with the id of a schema's digest."""
    return f"{DIGESTS}/{digest}"


def references_node(subject: str) -> str:
    """The parent of the references to a subject's versions."""
    return f"{REFERENCES}/{segment(subject)}"


def reference_node(subject: str, version: int, schema_id: int) -> str:
    """The note that a schema refers to a subject's version."""
    return f"{references_node(subject)}/{version:d}.{schema_id:d}"
