"""A mirror's life in a process: finds both clusters, mirrors until it is cancelled, and stops cleanly."""

from __future__ import annotations

from collections.abc import Mapping
from random import random
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from logd.mirror.cluster_access import ClusterAccess
from logd.mirror.cluster_search import ClusterAddress, find_cluster
from logd.mirror.mirror import Mirror
from logd.mirror.schemas.registry_pair import RegistryPair
from logd.mirror.schemas.schema_gate import SchemaGate
from logd.mirror.settings import MirrorSettings


@frozen
class MirrorPlan:
    """A mirror to run: the addresses of both clusters, and the settings."""

    source: ClusterAddress
    target: ClusterAddress
    settings: MirrorSettings
    #: RegistryPair between which the schemas are copied that messages name; None: the schemas are not looked at.
    registries: RegistryPair | None = None


@define(eq=False)
class RunningMirror:
    """One mirror, from the search for its clusters to its end."""

    _log = Logger()

    plan: MirrorPlan
    #: None until both clusters were found.
    mirror: Mirror | None = field(default=None, init=False)

    async def run(self, reactor: Any) -> None:
        """Mirror until cancelled, then stop cleanly. Raises ConfigurationError, for instance for one cluster twice."""
        plan = self.plan
        opened: list[ClusterAccess | SchemaGate] = []
        session = plan.settings.session_timeout
        try:
            source = await find_cluster(reactor, plan.source, "source", True, session)
            opened.append(source)
            target = await find_cluster(reactor, plan.target, "target", False, session)
            opened.append(target)
            gate = None if plan.registries is None else plan.registries.gate(reactor, random)
            opened += [] if gate is None else [gate]
            self.mirror = mirror = Mirror(reactor, plan.settings, source, target, random=random, schemas=gate)
            self._log.info(
                "mirroring topics {topics} from cluster {source} to cluster {target} in group {group}",
                topics=plan.settings.topics.pattern, source=source.uuid, target=target.uuid, group=plan.settings.group,
            )  # fmt: skip
            running = Deferred.fromCoroutine(mirror.run())
            try:
                await running
            except CancelledError:
                await mirror.stop()
                raise
        finally:
            for each in opened:
                await each.close()

    def health(self) -> Mapping[str, Any]:
        """Return the content of /health: "ok" while everything that matches is mirrored."""
        mirror = self.mirror
        if mirror is None:
            return {"status": "starting"}
        lags = mirror.lags()
        stalled = {f"{lag.where.topic}-{lag.where.partition}": lag.stalled for lag in lags if lag.stalled}
        failure = mirror.reading.failure
        return {
            "status": "failing" if failure else "stalled" if stalled else "ok",
            **({"failure": failure} if failure else {}),
            "partitions": len(lags),
            "lag_bytes": sum(lag.bytes for lag in lags),
            "lag_seconds": round(max((lag.seconds for lag in lags), default=0.0), 3),
            "topics": mirror.topic_names(),
            "refused": mirror.refused,
            "stalled": stalled,
        }
