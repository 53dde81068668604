"""Paths of the coordination tree: the nodes of brokers, topics, consumer groups and their positions.

::

    /brokers/ids/<id>                                ephemeral: host, port, instance uuid, what is stored there
    /brokers/topics/<topic>                          uuid, the brokers of each partition, the topic's settings
    /brokers/topics/<topic>/change-<random>          ephemeral: exists while a broker changes or deletes the topic
    /brokers/topics/<topic>/partitions/<p>/state     leader, leader epoch, in-sync replicas
    /brokers/topics/<topic>/partitions/topic-<uuid>  empty; exists while the replicated topic with that uuid does
    /brokers/deleted/<uuid>                          a deleted topic: the brokers that still store parts of it
    /brokers/stored/<topic uuid>/<broker id>         how far each partition is known to be stored on that broker
    /controller                                      ephemeral: the broker that assigns leaders
    /controller_epoch                                the number of controllers so far, in decimal
    /brokers/elections/<topic>                       partitions that any live replica may lead, as a person has decided
    /brokers/reassignments/<topic>                   the replicas that partitions are to have in the end
    /brokers/draining/<id>                           a broker that is to lead nothing
    /consumers/<group>/ids/<consumer>                ephemeral: topics subscribed, with the number of streams for each
    /consumers/<group>/owners/<topic>/<partition>    ephemeral: id of the consumer stream that owns the partition
    /consumers/<group>/offsets/<topic>/<partition>   position of the next message to consume, as decimal text
    /consumers/<group>/coordinator                   ephemeral: the broker that coordinates the group's Kafka clients
    /consumers/<group>/generation                    how often those have shared out their partitions, in decimal
    /consumers/<group>/metadata/<topic>/<partition>  the text that a Kafka client has stored beside a position
    /producers/ids                                   the next id of an idempotent producer, as decimal text
    /security/rules/<id>                             one access rule; equal rules have equal ids
    /security/users/<name>                           how a user proves to be that user, never a password
    /security/quotas/<name>                          the limits of one user; ``*``: of users that have none of their own
    /security/secret                                 random bytes that only brokers may know
    /schemas/...                                     the schema registry: see logd/schema_registry/tree/paths.py

Values are UTF-8 JSON except for the owners, offsets and metadata of groups, which are plain text. A name that would
leave its place in the tree raises ValueError.
"""

from __future__ import annotations

BROKERS = "/brokers"
BROKER_IDS = "/brokers/ids"
CLUSTER = "/cluster"
BROKER_TOPICS = "/brokers/topics"
DELETED_TOPICS = "/brokers/deleted"
STORED = "/brokers/stored"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
ELECTIONS = "/brokers/elections"
REASSIGNMENTS = "/brokers/reassignments"
DRAINING = "/brokers/draining"
CONSUMERS = "/consumers"
PRODUCER_IDS = "/producers/ids"
ACCESS_RULES = "/security/rules"
USERS = "/security/users"
QUOTAS = "/security/quotas"
SECRET = "/security/secret"
#: The nodes below which only those who have made them may read, where they have credentials.
PRIVATE = (USERS, SECRET)
#: The nodes that brokers and administrators alone may change, with all below them, where they have credentials.
PROTECTED = ("/brokers", CLUSTER, CONTROLLER, CONTROLLER_EPOCH, "/producers", "/security", "/schemas")


def broker(broker_id: int) -> str:
    """The node of a live broker."""
    return f"{BROKER_IDS}/{broker_id:d}"


def topic(name: str) -> str:
    """The node of a topic's entry."""
    return f"{BROKER_TOPICS}/{_segment(name)}"


def deleted_topic(uuid: str) -> str:
    """The note about a deleted topic."""
    return f"{DELETED_TOPICS}/{_segment(uuid)}"


def stored_topic(uuid: str) -> str:
    """The parent of the stored ends of a topic, one node for each broker."""
    return f"{STORED}/{_segment(uuid)}"


def stored_ends(uuid: str, broker_id: int) -> str:
    """The node with the stored ends of a topic's partitions on one broker."""
    return f"{stored_topic(uuid)}/{broker_id:d}"


def access_rule(rule_id: str) -> str:
    """The node of an access rule."""
    return f"{ACCESS_RULES}/{_segment(rule_id)}"


def user(name: str) -> str:
    """The node of a user."""
    return f"{USERS}/{_segment(name)}"


def quota(name: str) -> str:
    """The node of a user's quota."""
    return f"{QUOTAS}/{_segment(name)}"


def partition_state(name: str, partition: int) -> str:
    """The node with a partition's leader."""
    return f"{topic(name)}/partitions/{partition:d}/state"


def topic_identity(name: str, uuid: str) -> str:
    """The node that exists while the replicated topic with this uuid does."""
    return f"{topic(name)}/partitions/topic-{_segment(uuid)}"


def topic_change(name: str, change: str) -> str:
    """The node of one change of a topic that is under way."""
    return f"{topic(name)}/change-{_segment(change)}"


def election(name: str) -> str:
    """The node that asks for an unclean election of partitions of a topic."""
    return f"{ELECTIONS}/{_segment(name)}"


def reassignment(name: str) -> str:
    """The node with the replicas that partitions of a topic are to have in the end."""
    return f"{REASSIGNMENTS}/{_segment(name)}"


def group(name: str) -> str:
    """The root node of a consumer group."""
    return f"{CONSUMERS}/{_segment(name)}"


def group_consumers(name: str) -> str:
    """The parent of the group's live consumers."""
    return f"{group(name)}/ids"


def group_consumer(name: str, consumer: str) -> str:
    """The node of one live consumer of a group."""
    return f"{group_consumers(name)}/{_segment(consumer)}"


def group_owners(name: str, topic_name: str) -> str:
    """The parent of the owners of a topic's partitions."""
    return f"{group(name)}/owners/{_segment(topic_name)}"


def group_owner(name: str, topic_name: str, partition: int) -> str:
    """The node that names the stream owning a partition."""
    return f"{group_owners(name, topic_name)}/{partition:d}"


def group_offsets(name: str, topic_name: str) -> str:
    """The parent of a group's positions in a topic."""
    return f"{group(name)}/offsets/{_segment(topic_name)}"


def group_offset(name: str, topic_name: str, partition: int) -> str:
    """The node with a group's position in a partition."""
    return f"{group_offsets(name, topic_name)}/{partition:d}"


def group_coordinator(name: str) -> str:
    """The claim of the broker that coordinates the group's Kafka clients; it exists while there are some."""
    return f"{group(name)}/coordinator"


def group_generation(name: str) -> str:
    """The node with the generation of the group's Kafka clients. Each claim of the coordinator changes its version."""
    return f"{group(name)}/generation"


def is_told_to_all(path: str) -> bool:
    """Return whether a node of a group may be read by clients that can only guess its name.

    A member's entry has to be read by all members, whoever they are, and the coordinator's by all that would join.
    """
    parts = path.split("/")
    return path.startswith(f"{CONSUMERS}/") and (
        (len(parts) == 5 and parts[3] == "ids") or (len(parts) == 4 and parts[3] == "coordinator")
    )


def group_metadata(name: str, topic_name: str) -> str:
    """The parent of the texts that Kafka clients have stored beside their positions in a topic."""
    return f"{group(name)}/metadata/{_segment(topic_name)}"


def group_metadatum(name: str, topic_name: str, partition: int) -> str:
    """The node with the text that a Kafka client has stored beside its position in a partition."""
    return f"{group_metadata(name, topic_name)}/{partition:d}"


def _segment(name: str) -> str:
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise ValueError(
            f"{name!r} is not allowed as a name in the tree; allowed are one or more characters except '/', "
            "and not '.' or '..'"
        )
    return name
