"""Keeps the authorizer up to date with the users and the access rules of the coordination tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList

from logd.broker.security.authorizer import Authorizer
from logd.coord import paths
from logd.coord.interfaces import ICoordination
from logd.coord.registries.access_rules import watch_rules
from logd.coord.registries.child_cache import ChildCache
from logd.coord.registries.quotas import watch_quotas
from logd.interfaces import Clock, Timer
from logd.security.access_rules import AccessRule, AccessRules
from logd.security.quotas import Quota


@define(eq=False)
class SecurityView:
    """The users, rules and quotas as this broker last saw them. Changes that come together are taken together."""

    _tree: ICoordination
    _clock: Clock
    _authorizer: Authorizer
    _take_quotas: Callable[[Mapping[str, Quota]], None]
    _rules: ChildCache[AccessRule] = field(init=False)
    _users: ChildCache[str] = field(init=False)
    _quotas: ChildCache[Quota] = field(init=False)
    _timer: Timer | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._rules = watch_rules(self._tree, self._clock, self._changed)
        self._quotas = watch_quotas(self._tree, self._clock, self._changed)
        self._users = ChildCache(self._tree, self._clock, paths.USERS, lambda name, _: name, self._changed)

    def start(self) -> None:
        """Begin to read; the session may come later."""
        self._rules.start()
        self._users.start()
        self._quotas.start()
        self.when_known().addCallback(lambda _: self._take())

    def when_known(self) -> Deferred[None]:
        """Return a Deferred that fires when users, rules and quotas have been read once. Never fails."""
        caches: tuple[ChildCache[Any], ...] = (self._rules, self._users, self._quotas)
        return DeferredList([cache.when_complete() for cache in caches]).addCallback(lambda _: None)

    def stop(self) -> None:
        """Stop reading; what was read stays in force."""
        self._rules.stop()
        self._users.stop()
        self._quotas.stop()
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
        if self._rules.complete and self._users.complete:
            self._authorizer.take(AccessRules(self._rules.values.values()), bool(self._users.values))
        if self._quotas.complete:
            self._take_quotas(self._quotas.values)
