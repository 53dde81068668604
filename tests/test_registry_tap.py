"""Tests of the options of ``twistd logd-registry``, and of the service that they make."""

from __future__ import annotations

from unittest import mock

from twisted.application.service import IService, MultiService
from twisted.python.usage import UsageError
from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

from logd.registry_tap import Options, RegistryOptions, TreeClientService, makeService
from logd.web.service import PagesService


def parsed(*arguments: str) -> RegistryOptions:
    """Return options as twistd would have parsed them."""
    options = Options()
    options.parseOptions(list(arguments))
    return options


class RegistryOptionsTests(TestCase):
    """The options after ``twistd logd-registry``."""

    def setUp(self) -> None:
        """Keep the environment of the machine out."""
        self.patch(RegistryOptions, "environ", {})

    def test_the_tree_is_named_by_option_environment_or_default(self) -> None:
        """In that order."""
        self.assertEqual(parsed().settings.hosts, "127.0.0.1:2181")
        with mock.patch.object(RegistryOptions, "environ", {"LOGD_ZOOKEEPER": "env:2181"}):
            self.assertEqual(parsed().settings.hosts, "env:2181")
            self.assertEqual(parsed("--zookeeper", "zk:2181/logd").settings.hosts, "zk:2181/logd")

    def test_credentials_come_from_the_environment(self) -> None:
        """As for the commands."""
        environ = {"LOGD_ZOOKEEPER_DIGEST_CREDENTIALS": "user:secret"}
        with mock.patch.object(RegistryOptions, "environ", environ):
            self.assertEqual(parsed().settings.digests, ("user:secret",))

    def test_what_is_not_allowed_is_named(self) -> None:
        """Before twistd goes to the background."""
        for arguments, words in (
            (("--listen", "nonsense"), "--listen 'nonsense' is not allowed"),
            (("--zookeeper", "a b"), "a b"),
            (("more",), "'more' is not an option"),
        ):
            self.assertIn(words, str(self.assertRaises(UsageError, parsed, *arguments)))


class MakeRegistryServiceTests(TestCase):
    """The service."""

    async def test_the_service_listens_and_says_that_its_tree_is_away(self) -> None:
        """Requests are answered meanwhile; nothing was opened before the start."""
        services = makeService(parsed("--listen", "tcp:0:interface=127.0.0.1", "--zookeeper", "127.0.0.1:1"))
        verifyObject(IService, services)
        assert isinstance(services, MultiService)
        pages, tree = services.services
        assert isinstance(pages, PagesService) and isinstance(tree, TreeClientService)
        self.assertIsNone(tree.client())
        self.assertIsNone(pages.port)
        self.patch(TreeClientService, "_catch_terminate", lambda service: None)
        services.startService()
        self.assertEqual(tree.health()["status"], "the coordination tree does not answer")
        await services.stopService()
