"""Clients of groups for tests: the requests that a consumer of Kafka sends, on a broker in memory."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)

from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase


class GroupClient:
    """A client that joins group ``g`` as far as a test tells it to."""

    def __init__(self, case: GroupsTestCase, peer: KafkaPeer, instance_id: str | None = None) -> None:
        self.case = case
        self.peer = peer
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.leader = ""
        self.members: list[Any] = []

    @property
    def leads(self) -> bool:
        """True if this client is the leader."""
        return self.leader == self.member_id

    def send_join(self, version: int = 5, **more: Any) -> None:
        """Ask to join; the answer waits for the other members."""
        self.peer.send(self.join_request(version, **more))

    def join_request(self, version: int = 5, **more: Any) -> Any:
        """Return a request to join."""
        protocol = JoinGroupRequest.JoinGroupRequestProtocol
        fields = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [protocol(name="range", metadata=b"mine")],
        }
        return JoinGroupRequest[version](**{**fields, **more})

    def joined(self) -> Any:
        """Take the answer to a request to join."""
        self.case.settle()
        (answer,) = self.peer.answers()
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.leader, self.members = answer.leader, answer.members
        return answer

    def join(self, version: int = 5, **more: Any) -> Any:
        """Join, in two steps if the broker wants that, after the delay of a new group."""
        answer = self._join_once(version, **more)
        return self._join_once(version, **more) if answer.error_code == 79 else answer

    def _join_once(self, version: int, **more: Any) -> Any:
        self.send_join(version, **more)
        self.case.settle()
        self.case.wait(0.3)
        return self.joined()

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = 3, **more: Any) -> Any:
        """Ask for the assignment, as the leader with those of all members."""
        self.send_sync(assignments, version, **more)
        self.case.settle()
        (answer,) = self.peer.answers()
        return answer

    def send_sync(self, assignments: dict[str, bytes] | None = None, version: int = 3, **more: Any) -> None:
        """Ask for the assignment; the answer waits for the leader."""
        kind = SyncGroupRequest.SyncGroupRequestAssignment
        given = [kind(member_id=name, assignment=each) for name, each in (assignments or {}).items()]
        fields = {**self.me, "group_id": "g", "generation_id": self.generation, "assignments": given}
        self.peer.send(SyncGroupRequest[version](**{**fields, **more}))

    @property
    def me(self) -> dict[str, Any]:
        """The fields that name this member."""
        return {"member_id": self.member_id, "group_instance_id": self.instance_id}

    def heartbeat(self, version: int = 3, **more: Any) -> int:
        """Send a heartbeat; return the error."""
        fields = {**self.me, "group_id": "g", "generation_id": self.generation}
        return int(self.case.ask(self.peer, HeartbeatRequest[version](**{**fields, **more})).error_code)

    def leave(self, version: int = 3) -> Any:
        """Leave the group."""
        if version < 3:
            return self.case.ask(self.peer, LeaveGroupRequest[version](group_id="g", member_id=self.member_id))
        members = [LeaveGroupRequest.MemberIdentity(**self.me)]
        return self.case.ask(self.peer, LeaveGroupRequest[version](group_id="g", members=members))

    def commit(self, *positions: tuple[str, int, int, str], version: int = 7, **more: Any) -> list[int]:
        """Commit (topic, partition, position, text); return the errors."""
        answer = self.case.ask(self.peer, self.commit_request(*positions, version=version, **more))
        return [part.error_code for topic in answer.topics for part in topic.partitions]

    def commit_request(self, *positions: tuple[str, int, int, str], version: int = 7, **more: Any) -> Any:
        """Return a commit, as a member."""
        kind = OffsetCommitRequest.OffsetCommitRequestTopic
        topics = [
            kind(
                name=topic,
                partitions=[
                    kind.OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=position, committed_metadata=text
                    )
                ],
            )
            for topic, partition, position, text in positions
        ]
        fields = {**self.me, "group_id": "g", "generation_id_or_member_epoch": self.generation, "topics": topics}
        return OffsetCommitRequest[version](**{**fields, **more})

    def commit_alone(self, *positions: tuple[str, int, int, str], group_id: str = "g") -> list[int]:
        """Commit as a client that is no member of the group."""
        nobody: dict[str, Any] = {"member_id": "", "group_instance_id": None, "generation_id_or_member_epoch": -1}
        return self.commit(*positions, group_id=group_id, **nobody)

    def positions(self, *places: tuple[str, int], version: int = 5) -> dict[tuple[str, int], tuple[int, str]]:
        """Return what is committed for these partitions, by default for all."""
        kind = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [kind(name=topic, partition_indexes=[number]) for topic, number in places] if places else None
        answer = self.case.ask(self.peer, OffsetFetchRequest[version](group_id="g", topics=topics))
        self.case.assertEqual(answer.error_code or 0, 0)
        return {
            (topic.name, part.partition_index): (part.committed_offset, part.metadata)
            for topic in answer.topics
            for part in topic.partitions
        }


class GroupsTestCase(KafkaTestCase):
    """A broker with topic ``t`` of two partitions, and clients of its groups."""

    def setUp(self) -> None:
        """Make the topic."""
        super().setUp()
        self.create("t", 2)

    def new_tree(self) -> None:
        """Make an empty tree, whose clock begins where the broker's does: a coordinator compares the two."""
        super().new_tree()
        self.tree_clock.advance(1_600_000_000)

    def wait(self, seconds: float) -> None:
        """Let time pass, for the tree too."""
        while seconds > 0:
            step = min(seconds, 1.0)
            self.clock.advance(step)
            self.tree_clock.advance(step)
            self.settle()
            seconds -= step

    def client(self, instance_id: str | None = None) -> GroupClient:
        """Connect a client."""
        return GroupClient(self, self.kafka(), instance_id)

    def member(self, instance_id: str | None = None) -> GroupClient:
        """Connect the first member of the group, and bring it as far as its assignment."""
        client = self.client(instance_id)
        self.assertEqual(client.join().error_code, 0)
        self.assertEqual(client.sync({client.member_id: b"yours"}).assignment, b"yours")
        return client

    def tree_value(self, path: str) -> bytes | None:
        """Return the value of a node; None if there is none."""
        stat = self.successResultOf(self.looked(self.access.client.exists(path)))
        return None if stat is None else self.successResultOf(self.looked(self.access.client.get(path)))[0]

    def looked(self, waiting: Any) -> Any:
        """Let the tree answer."""
        self.settle()
        return waiting
