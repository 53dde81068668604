"""Tests of who may see which page, over real connections."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase
from twisted.web.client import Agent, HTTPConnectionPool, readBody
from twisted.web.http_headers import Headers
from zope.interface import implementer

import logd.web.guard
from logd.broker.security.authentication import FAILURE_SECONDS, Authentication
from logd.broker.security.authorizer import Authorizer
from logd.broker.security.quotas import Quotas
from logd.interfaces import IThreads
from logd.schema_registry.rest.endpoints import ROUTES
from logd.security.access_rules import AccessRule, AccessRules, Effect, Operation, ResourceType
from logd.security.quotas import Quota
from logd.security.users import User
from logd.web.guard import GuardedPages, read_basic
from logd.web.site import QuietSite, pages

ANN = User.of("ann", "secret:with a colon", lambda size: bytes(range(size)))
RIGHT = "secret:with a colon"


@implementer(IThreads)
class AtOnce:
    """Threads that work in the reactor's turn, and count."""

    def __init__(self) -> None:
        self.works = 0

    def run(self, work: Any, done: Any) -> None:
        """See IThreads."""
        self.works += 1
        result = work()
        net: Any = reactor
        net.callLater(0, done, result, None)


class GuardTests(TestCase):
    """Pages with a schema registry that is not there, at a server with the user ``ann``."""

    def setUp(self) -> None:
        """Serve them."""
        self.clock, self.threads = Clock(), AtOnce()
        self.authentication = Authentication(self.clock, self.threads)
        self.authorizer = Authorizer(True)
        nothing: Any = None
        self.quotas = Quotas(self.clock, nothing)
        self.authentication.take({"ann": ANN})
        self.authentication.take_secret(b"x" * 32)
        self.rules()
        root = pages(lambda: {"status": "ok", "detail": 1}, CollectorRegistry(), lambda: None)
        net: Any = reactor
        site = QuietSite(GuardedPages(root, lambda: self))
        self.port = net.listenTCP(0, site, interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)
        self.agent = Agent(net, pool=HTTPConnectionPool(net, persistent=False))

    def rules(self, *rules: AccessRule) -> None:
        """Let these rules hold."""
        self.authorizer.take(AccessRules(rules), True)

    def ask(
        self, path: str, user: str = "", password: str = RIGHT, method: str = "GET", **headers: str
    ) -> Deferred[tuple[int, Any]]:
        """Send a request; return the status and the body."""

        async def asking() -> tuple[int, Any]:
            fields = {name: [value] for name, value in headers.items()}
            if user:
                fields["authorization"] = [f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"]
            uri = f"http://127.0.0.1:{self.port.getHost().port}{path}".encode()
            response = await self.agent.request(method.encode(), uri, Headers(fields))
            self.challenge = response.headers.getRawHeaders("www-authenticate")
            body = await readBody(response)
            return response.code, json.loads(body) if body.startswith(b"{") else body

        return Deferred.fromCoroutine(asking())

    async def late(self, asking: Deferred[tuple[int, Any]]) -> tuple[int, Any]:
        """Return an answer that comes after the delay of a failure, and not before."""
        net: Any = reactor
        while not self.clock.getDelayedCalls():
            self.assertFalse(asking.called, f"answered before the delay: {asking}")
            turn: Deferred[None] = Deferred()
            net.callLater(0.001, turn.callback, None)
            await turn
        self.clock.advance(FAILURE_SECONDS - 0.01)
        self.assertFalse(asking.called)
        self.clock.advance(0.01)
        return await asking

    async def test_health_is_open_and_its_details_are_not(self) -> None:
        """Those who may describe the cluster see them."""
        self.assertEqual(await self.ask("/health"), (200, {"status": "ok"}))
        self.assertEqual(await self.ask("/health", "ann"), (200, {"status": "ok"}))
        self.rules(AccessRule("ann", Effect.ALLOW, Operation.DESCRIBE, ResourceType.CLUSTER, "cluster"))
        self.assertEqual(await self.ask("/health", "ann"), (200, {"status": "ok", "detail": 1}))

    async def test_metrics_need_a_right(self) -> None:
        """401 asks for a user, 403 says that the user may not; a name that is written in another way is the same."""
        for path in ("/metrics", "/%6detrics", "/metrics/", "/metrics?x=1"):
            self.assertEqual((await self.ask(path))[0], 401, path)
            self.assertEqual(self.challenge, ['Basic realm="logd", charset="UTF-8"'])
        self.assertEqual((await self.ask("/metrics", "ann"))[0], 403)
        self.rules(AccessRule("ann", Effect.ALLOW, Operation.DESCRIBE, ResourceType.CLUSTER, "cluster"))
        self.assertEqual((await self.ask("/metrics", "ann"))[0], 200)

    async def test_wrong_passwords_and_unknown_users_get_the_same_answer(self) -> None:
        """After the same time."""
        found = []
        for user, password in (("ann", "wrong"), ("bob", RIGHT), ("logd-broker", "x")):
            for path in ("/metrics", "/subjects", "/health"):
                found.append(await self.late(self.ask(path, user, password)))
        self.assertEqual({status for status, _ in found}, {401})
        self.assertEqual(len({body["message"] for _, body in found}), 1)

    async def test_a_right_password_is_hashed_once(self) -> None:
        """Until the users change."""
        for _ in range(3):
            await self.ask("/health", "ann")
        self.assertEqual(self.threads.works, 1)
        self.authentication.take({"ann": ANN})
        await self.ask("/health", "ann")
        self.assertEqual(self.threads.works, 2)
        self.authentication.take({"bob": ANN})
        self.assertEqual((await self.late(self.ask("/health", "ann")))[0], 401)

    async def test_headers_that_make_no_sense_are_refused(self) -> None:
        """As wrong passwords are."""
        for header in (
            "",
            "Basic",
            "Basic %",
            "Bearer x",
            "Basic " + "A" * 5000,
            "Basic " + b64encode(b"\xff").decode(),
        ):
            asking = self.ask("/health", authorization=header)
            self.assertEqual((await self.late(asking))[0], 401, header[:30])

    async def test_a_password_without_tls_is_refused_from_elsewhere(self) -> None:
        """It may have been read on its way; on this machine it cannot."""
        self.patch(logd.web.guard, "is_near", lambda host: False)
        status, body = await self.ask("/health", "ann")
        self.assertEqual((status, self.threads.works), (403, 0))
        self.assertIn("TLS", body["message"])
        self.assertEqual(logd.web.guard.is_near("x"), False)

    def test_this_machine_is_near_by_both_families_of_addresses(self) -> None:
        """A port that takes both has IPv4 addresses in the form of IPv6."""
        for host, near in (
            ("127.0.0.1", True),
            ("::1", True),
            ("::ffff:127.0.0.1", True),
            ("::ffff:10.0.0.1", False),
            ("fe80::1%eth0", False),
        ):
            self.assertEqual(logd.web.guard.is_near(host), near, host)

    async def test_too_many_attempts_are_told_to_wait(self) -> None:
        """Others are served meanwhile."""
        self.patch(logd.web.guard, "MOST_WAITING", 1)
        first = self.ask("/health", "ann", "wrong")
        net: Any = reactor
        while not self.clock.getDelayedCalls():
            turn: Deferred[None] = Deferred()
            net.callLater(0.001, turn.callback, None)
            await turn
        self.assertEqual((await self.ask("/health", "ann"))[0], 503)
        self.assertEqual((await self.ask("/health"))[0], 200)
        self.assertEqual((await self.late(first))[0], 401)

    async def test_every_endpoint_of_the_schema_registry_needs_a_user_or_a_right(self) -> None:
        """All of the table: nobody may do anything, a user may read, and change what the rules allow."""
        for route in ROUTES:
            path = "/" + "/".join("t-value" if part == "*" else part for part in route.path)
            reads = route.method == "GET" or path.startswith("/compatibility") or path == "/subjects/t-value"
            reads = reads and route.method != "DELETE"
            what = f"{route.method} {path}"
            self.rules()
            self.assertEqual((await self.ask(path, method=route.method))[0], 401, what)
            # The registry behind these pages is never open, so 500 means that the request has reached it.
            self.assertEqual((await self.ask(path, "ann", method=route.method))[0], 500 if reads else 403, what)
            self.rules(AccessRule("ann", Effect.ALLOW, Operation.ALTER, ResourceType.CLUSTER, "cluster"))
            self.assertNotIn((await self.ask(path, "ann", method=route.method))[0], (401, 403), what)

    async def test_schemas_of_a_topic_belong_to_those_who_may_write_to_it(self) -> None:
        """Of this topic alone."""
        self.rules(AccessRule("ann", Effect.ALLOW, Operation.WRITE, ResourceType.TOPIC, "t"))
        for subject, expected in (("t-value", 500), ("t-key", 500), ("u-value", 403), ("t", 403), ("t-value%2Fx", 403)):
            status, _ = await self.ask(f"/subjects/{subject}/versions", "ann", method="POST")
            self.assertEqual(status, expected, subject)
        self.assertEqual((await self.ask("/subjects/t-value", "ann", method="DELETE"))[0], 403)

    async def test_pages_of_other_sites_change_nothing(self) -> None:
        """A browser would send the password that it knows along."""
        here = f"http://127.0.0.1:{self.port.getHost().port}"
        self.rules(AccessRule("ann", Effect.ALLOW, Operation.ALL, ResourceType.CLUSTER, "cluster"))
        for origin, expected in ((here, 500), ("https://evil.example", 403), ("null", 403), ("http://[", 403)):
            found, _ = await self.ask("/config", "ann", method="PUT", origin=origin)
            self.assertEqual(found, expected, origin)

    async def test_a_name_that_another_site_has_given_this_server_changes_no_schemas(self) -> None:
        """While all is open no password tells that site's pages from those of a person here."""
        self.authorizer.required = False
        self.authentication.take({})
        self.authorizer.take(AccessRules(), False)
        here = f"127.0.0.1:{self.port.getHost().port}"
        for host, expected in ((here, 500), ("localhost:1", 500), ("[::1]:1", 500), ("evil.example", 403)):
            found, _ = await self.ask("/config", method="PUT", origin=f"http://{host}", host=host)
            self.assertEqual(found, expected, host)
        # Programs send no origin, and may call the server by any name.
        self.assertEqual((await self.ask("/config", method="PUT", host="logs.example"))[0], 500)

    async def test_everything_is_open_where_there_are_neither_users_nor_rules(self) -> None:
        """A header with a password changes nothing."""
        self.authorizer.required = False
        self.authentication.take({})
        self.authorizer.take(AccessRules(), False)
        self.assertEqual((await self.ask("/metrics"))[0], 200)
        self.assertEqual(await self.ask("/health", "ann"), (200, {"status": "ok", "detail": 1}))

    async def test_bytes_of_pages_count_and_a_user_in_debt_waits(self) -> None:
        """Another user does not, nor do pages for supervisors and for monitoring; and the wait ends with the user."""
        self.quotas.take({"ann": Quota(bytes_out=1000)}, ())
        self.authentication.take({"ann": ANN, "bob": ANN})
        self.assertEqual((await self.ask("/subjects", "ann"))[0], 500)
        usage = self.quotas.usages["ann"]
        self.assertGreater(usage.outgoing.total, 30)
        self.assertGreater(usage.incoming.total, 60)
        usage.outgoing.use(5000)
        waiting = self.ask("/subjects", "ann")
        await self.until(lambda: bool(usage.outgoing.held))
        self.assertEqual((await self.ask("/health", "ann"))[0], 200)
        self.assertIn((await self.ask("/metrics", "ann"))[0], (200, 403))
        self.assertEqual((await self.ask("/subjects", "bob"))[0], 500)
        self.assertFalse(waiting.called)
        self.clock.advance(6)
        self.assertEqual((await waiting)[0], 500)

        usage.outgoing.use(5000)
        waiting = self.ask("/subjects", "ann")
        await self.until(lambda: bool(usage.outgoing.held))
        self.authentication.take({"bob": ANN})
        self.clock.advance(6)
        self.assertEqual((await waiting)[0], 401)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the reactor turn until a condition is true."""
        net: Any = reactor
        while not condition():
            turn: Deferred[None] = Deferred()
            net.callLater(0.001, turn.callback, None)
            await turn

    def test_basic_authentication(self) -> None:
        """A password may have colons, and a name not."""
        header = f"basic {b64encode('zoë:a:b'.encode()).decode()}"
        self.assertEqual(read_basic(header), ("zoë", "a:b"))
