"""Keeps a broker up to date with the users, access rules and quotas of the coordination tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from secrets import token_bytes
from typing import Any, ClassVar

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from logd.broker.security.authentication import Authentication
from logd.broker.security.authorizer import Authorizer
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.registries.access_rules import watch_rules
from logd.coord.registries.child_cache import ChildCache
from logd.coord.registries.quotas import watch_quotas
from logd.coord.registries.users import read_or_make_secret, watch_users
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.deferreds.waiting import OneTimeEvent
from logd.interfaces import Clock, Timer
from logd.security.access_rules import AccessRule, AccessRules
from logd.security.quotas import Quota
from logd.security.users import User

#: Seconds before the secret of the brokers is asked for again.
_RETRY_SECONDS = 1.0


@define(eq=False)
class SecurityView:
    """The users, rules and quotas as this broker last saw them. Changes that come together are taken together."""

    _log: ClassVar[Logger] = Logger()

    _tree: ICoordination
    _clock: Clock
    _authorizer: Authorizer
    _authentication: Authentication
    #: Takes the users that the tree has now.
    _take_users: Callable[[Mapping[str, User]], None]
    _take_quotas: Callable[[Mapping[str, Quota]], None]
    #: Called with an action and a name, and details, for each change after the first reading.
    _seen: Callable[..., None]
    _rules: ChildCache[AccessRule] = field(init=False)
    _users: ChildCache[User] = field(init=False)
    _quotas: ChildCache[Quota] = field(init=False)
    #: The nodes' values as last compared, by the kind of the node.
    _before: dict[str, dict[str, Any]] = field(factory=dict, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _secret_known: OneTimeEvent = field(factory=OneTimeEvent, init=False)
    _background: Background = field(factory=lambda: Background("reading the secret of the brokers"), init=False)

    def __attrs_post_init__(self) -> None:
        self._rules = watch_rules(self._tree, self._clock, self._changed)
        self._quotas = watch_quotas(self._tree, self._clock, self._changed)
        self._users = watch_users(self._tree, self._clock, self._changed)

    def start(self) -> None:
        """Begin to read; the session may come later."""
        self._rules.start()
        self._users.start()
        self._quotas.start()
        self._background.start(self._read_secret())
        self.when_known().addCallback(lambda _: self._take())

    def when_known(self) -> Deferred[None]:
        """Return a Deferred that fires when users, rules and quotas have been read once. Never fails."""
        caches: tuple[ChildCache[Any], ...] = (self._rules, self._users, self._quotas)
        complete = [cache.when_complete() for cache in caches]
        return DeferredList([*complete, self._secret_known.wait()]).addCallback(lambda _: None)

    def stop(self) -> None:
        """Stop reading; what was read stays in force."""
        self._rules.stop()
        self._users.stop()
        self._quotas.stop()
        self._background.stop()
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _changed(self, _name: str) -> None:
        if self._timer is None:
            self._timer = self._clock.callLater(0, self._take)

    def _take(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        if self._users.complete:
            self._take_users(self._users.values)
        if self._rules.complete and self._users.complete:
            # A node that cannot be read may be the one that closes the cluster.
            closed = bool(self._users.values) or self._users.unreadable or self._rules.unreadable
            self._authorizer.take(AccessRules(self._rules.values.values()), closed)
        if self._quotas.complete:
            self._take_quotas(self._quotas.values)
        caches: dict[str, ChildCache[Any]] = {"access rule": self._rules, "user": self._users, "quota": self._quotas}
        for kind, cache in caches.items():
            if cache.complete:
                self._compare(kind, dict(cache.values))

    def _compare(self, kind: str, values: dict[str, Any]) -> None:
        """Tell what has been added, changed and removed since the last call; the first one tells nothing."""
        before = self._before.get(kind)
        self._before[kind] = values
        if before is None or before == values:
            return
        for name in sorted(before.keys() | values.keys()):
            old, new = before.get(name), values.get(name)
            if old != new:
                what = "remove" if new is None else "add" if old is None else "change"
                value = old if new is None else new
                text = str(value) if kind == "access rule" else name  # the rule's own name says nothing
                limits = value.limits() if isinstance(value, Quota) else {}
                self._seen(f"{what} {kind}", text, **limits)

    async def _read_secret(self) -> None:
        """Read the secret of the brokers, by which they know each other; the first broker of a cluster makes it."""
        await self._users.when_complete()
        said = False
        while True:
            try:
                secret = await read_or_make_secret(self._tree, token_bytes)
            except CoordinationError as error:
                if not said:
                    said = True
                    self._log.warn("the secret of the brokers cannot be read yet: {error}", error=str(error))
                await sleep(self._clock, _RETRY_SECONDS)
            else:
                break
        self._authentication.take_secret(secret)
        self._secret_known.happen()
