"""Tests of logd.unused_tls in commands: Twisted's TLS is imported where an address may need it, and only there."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from logd.unused_tls import may_need_tls

#: Runs a command that finds no broker, and prints whether its process has TLS.
_COMMAND = """\
import atexit, sys
atexit.register(lambda: print("twisted.internet.tcp" in sys.modules, "OpenSSL" in sys.modules))
from logd.cli.main import main
sys.argv = ["logd", *{arguments}]
main({call})
"""


class WordsTests(SynchronousTestCase):
    """The words of command lines and variables."""

    def test_plain_addresses_need_none(self) -> None:
        """Nor do names, files, patterns and numbers."""
        for word in ("127.0.0.1:6667", "a.example:6667,[::1]:6668", "tcp:6667", "--listen=tcp:6667:interface=::", "t"):
            self.assertFalse(may_need_tls(["produce", word]), word)

    def test_other_endpoints_may_need_it(self) -> None:
        """Those that nobody here knows included; a settings file may name any."""
        for word in (
            *("tls:a.example:6668", "127.0.0.1:6667,tls:b:6668", "--broker=ssl:b:6668", "listen=systemd:domain=INET"),
            *("onion:abc:6667", "https://a.example", "--tls", "--tls-ca=x", "--config", "SSL:b:6668"),
        ):
            self.assertTrue(may_need_tls(["produce", word]), word)

    def test_a_port_behind_a_name_is_an_endpoint_where_one_is_listened_on(self) -> None:
        """Of a plugin of Twisted's, which may need TLS; elsewhere it is a host and a port."""
        for words in (
            ("--listen", "foo:443"),
            ("--listen=foo:443",),
            ("--set", "http=foo:443"),
            ("-s", "kafka.listen=a:1"),
        ):
            self.assertTrue(may_need_tls(["zookeeper", *words]), words)
        for words in (("--listen", "tcp:0"), ("--http=unix:/x",), ("--broker", "foo:443"), ("--zookeeper=foo:443",)):
            self.assertFalse(may_need_tls(["zookeeper", *words]), words)


class CommandTests(SynchronousTestCase):
    """Real processes."""

    def has_tls(self, *arguments: str, call: str = "", **environ: str) -> str:
        """Return whether a command has imported Twisted's TCP, and pyOpenSSL; ``call``: how its function is called."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LOGD_")}
        done = subprocess.run(
            [sys.executable, "-c", _COMMAND.format(arguments=list(arguments), call=call)],
            env={**environment, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return done.stdout.strip().rpartition("\n")[2]

    def test_a_command_has_tls_where_an_address_may_need_it(self) -> None:
        """An address in a variable counts."""
        self.assertEqual(self.has_tls("topics", "list", "--broker", "127.0.0.1:1"), "True False")
        self.assertEqual(self.has_tls("topics", "list", "--broker", "tls:127.0.0.1:1"), "True True")
        self.assertEqual(self.has_tls("topics", "list", LOGD_BROKER="tls:127.0.0.1:1"), "True True")

    def test_a_process_that_goes_on_keeps_tls(self) -> None:
        """A caller of a command as a function may need TLS for itself."""
        arguments = ("topics", "list", "--broker", "127.0.0.1:1")
        for call in ("standalone_mode=False", "sys.argv[1:]", "args=sys.argv[1:]"):
            self.assertEqual(self.has_tls(*arguments, call=call), "True True", call)
