"""The nodes of the coordination tree that a backup has, by their paths, and the checks of their values.

::

    /cluster                                        the cluster's uuid
    /brokers/topics/<topic>                         topics with their settings
    /brokers/stored/<uuid>/<broker>                 how far their logs are known to be stored
    /brokers/deleted/<uuid>                         deleted topics that brokers have still to remove
    /consumers/<group>/{offsets,metadata}/<t>/<p>   positions of groups, native and of today's Kafka
    /consumers/<group>/generation                   the groups' generations
    /producers/ids                                  the next id of an idempotent producer
    /security/...                                   users, rules, quotas; not the brokers' secret
    /schemas/...                                    the schema registry

Nodes that end with a session are not in it, nor the secret: the first broker of a new tree makes another one.
"""

from __future__ import annotations

from logd.checkedjson import decimal, load_json
from logd.coord import paths
from logd.coord.registries.offsets import decode_position
from logd.coord.registries.producer_ids import decode_next
from logd.coord.registries.stored_ends import StoredEnds
from logd.coord.registries.topics import decode_entry

SECURITY, SCHEMAS = "/security", "/schemas"
#: The highest id of a schema that was given out.
SCHEMA_LAST_ID = f"{SCHEMAS}/last_id"
#: Parts of a group's node that are kept; the others end with its members.
GROUP_PARTS = ("offsets", "metadata", "generation")
#: Nodes below one another, at most: deeper than any of logd's.
DEEPEST = 8
#: Definitions: what has to be of one moment in a backup. Positions move on meanwhile.
DEFINITIONS = (paths.CLUSTER, paths.BROKER_TOPICS, paths.DELETED_TOPICS, SECURITY, SCHEMAS)


def is_secret(path: str) -> bool:
    """Return whether a node is never copied."""
    return path == paths.SECRET


def check_node(path: str, data: bytes) -> None:
    """Raise ValueError unless a backup may have this node, with this value."""
    words = path.split("/")
    if words[0] or not all(words[1:]) or any(word in (".", "..") or "\0" in word for word in words):
        raise ValueError(f"{path!r} is no path")
    if len(words) - 1 > DEEPEST or is_secret(path):
        raise ValueError(f"{path} is no node of a backup")
    match words[1:]:
        case ["cluster"] | ["brokers", "deleted", _]:
            load_json(data)
        case ["brokers", "topics", topic]:
            decode_entry(topic, data)
        case ["brokers", "stored", _, broker]:
            decimal(broker)
            StoredEnds.decode(path, data)
        case ["consumers", _] | ["consumers", _, "generation"] | ["consumers", _, "metadata", _, _]:
            pass
        case ["consumers", _, "offsets", _, partition]:
            decimal(partition)
            decode_position(data)
        case ["producers", "ids"]:
            decode_next(data)
        case ["security" | "schemas", *_]:
            pass
        case _:
            raise ValueError(f"{path} is no node of a backup")
