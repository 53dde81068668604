"""Tests of the command line before a command begins: refused arguments, and help."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from io import BytesIO, TextIOWrapper
from typing import ClassVar

import click
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from logd import __version__
from logd.cli.lazy_group import Lazy
from logd.cli.main import Commands, main, print_any_name
from logd.protocol.implementation import IMPLEMENTATION, REASON


def invoke(*arguments: str) -> tuple[int, str]:
    """Return the exit status and output of a command line."""
    result = CliRunner(env={"LOGD_BROKER": ""}).invoke(main, arguments)
    return result.exit_code, result.output


def subcommands(group: click.Group) -> list[tuple[str, click.Command]]:
    """Return the commands of a group with their names."""
    context = click.Context(group)
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [(name, command) for name, command in found if command is not None]


def failing(number: int) -> Commands:
    """Return commands of which ``work`` fails with this number of the system."""

    @click.command()
    def work() -> None:
        raise OSError(number, os.strerror(number))

    class FailingCommands(Commands):
        lazy: ClassVar[Mapping[str, Lazy]] = {"work": Lazy("", lambda: work)}

    return FailingCommands("logd")


class UsageTests(SynchronousTestCase):
    """Wrong use, which is status 2, and help."""

    def test_each_mistake_is_named_with_the_remedy(self) -> None:
        """Nothing is begun when the arguments are wrong."""
        for arguments, words in (
            (["produce"], "Missing argument 'TOPIC'"),
            (["produce", "a/b"], "'a/b' is not allowed"),
            (["produce", "t", "--acks", "-2"], "-2 is not in the range -1<=x"),
            (
                ["produce", "t", "--message-bytes", "20000000"],
                "Invalid value for '--message-bytes': 20000000 is not in the range 1<=x<=16711680",
            ),
            (
                ["produce", "t", "--timeout", "604801"],
                "Invalid value for '--timeout': 604801.0 is not in the range 0.001<=x<=604800.0",
            ),
            (["zookeeper", "--data", "d", "--session-min", "50000"], "--session-min is above --session-max, 40000"),
            (
                ["import", "--topics", "t", "--to", "d", "--task-bytes", "1099511627777"],
                "Invalid value for '--task-bytes': 1099511627777 is not in the range 1024<=x<=1099511627776",
            ),
            (
                ["import", "--topics", "t", "--to", "d", "--timeout", "86401"],
                "Invalid value for '--timeout': 86401.0 is not in the range 0<=x<=86400",
            ),
            (["produce", "t", "--broker", "host"], "allowed is HOST:PORT"),
            (["produce", "t", "--compression", "lzma"], "'zstd'"),
            (["consume", "t", "--from", "newest"], "'newest' is not allowed; allowed is earliest, latest"),
            (["consume", "t", "--from", "12"], "needs --partition"),
            (["consume", "t", "--max", "-1"], "-1 is not in the range x>=0"),
            (["consume", "t", "--group", "g", "--partition", "1"], "cannot be used with --group"),
            (["consume", "t", "--group", "g", "--partition", "1", "--from", "5"], "cannot be used with --group"),
            (["consume", "t", "--group", "g", "--from", "5"], "cannot be used with --group"),
            (["consume", "t", "--zookeeper", "127.0.0.1:2181"], "--zookeeper needs --group"),
            (["groups", "reset", "g", "--topic", "t", "--to", "5"], "needs --partition"),
            (["groups", "reset", "g", "--to", "latest"], "Missing option '--topic'"),
            (["groups", "describe", "g", "--topic", "a/b"], "'a/b' is not allowed"),
            (["groups", "describe", "a/b"], "'a/b' is not allowed"),
            (["groups", "delete", ""], "'' is not allowed"),
            (["groups", "reset", "..", "--topic", "t", "--to", "latest"], "'..' is not allowed"),
            (["consume", "t", "--group", "a/b"], "'a/b' is not allowed"),
            (["bench", "groups", "--consumers", "3", "--consumers", "4"], "only with --simulate"),
            (["topics", "create", "t", "--partitions", "0"], "0 is not in the range x>=1"),
            (["topics", "create", "t", "--set", "retention.msec=1"], "did you mean retention.ms"),
            (["topics", "create", "t", "--set", "topics.create=false"], "no setting 'topics.create'"),
            (
                ["topics", "create", "t", "--set", "colour=1"],
                "there is no setting 'colour'; allowed are batch.bytes, flush.messages",
            ),
            (["topics", "create", "t", "--set", "retention.ms=soon"], "retention.ms = 'soon' is not allowed"),
            (["collect", "a.log"], "Missing option '--topic'"),
            (["collect", "--topic", "t"], "Missing argument 'FILE...'"),
            (["collect", "a.log", "--topic", "t", "--key", "host"], "allowed is none, file, or = and a text"),
            (["collect", "a.log", "--topic", "t", "--from", "12"], "'start', 'end'"),
            (["consume", "t", "--on-corrupt", "dead-letter"], "go together"),
            (["consume", "t", "--on-corrupt", "dead-letter", "--dead-letters", "t"], "name another topic"),
            (["dead-letters", "list", "t", "--only", "colour=red"], "NAME of topic, partition, group, kind, error"),
            (["dead-letters", "replay", "t", "--to", "t"], "their replay would never end"),
            (["import", "--to", "d", "--compact", "--topics", "t"], "--compact take all of DIR"),
            (["import", "--to", "d"], "give one of --topics and --topics-pattern"),
            (["audit", "--broker", "a:1", "--zookeeper", "b:2"], "--broker and --zookeeper exclude one another"),
            (["audit", "--zookeeper", "b:c"], "'b:c' is not allowed"),
            (["frobnicate"], "No such command"),
        ):
            status, output = invoke(*arguments)
            self.assertEqual(status, 2, (arguments, output))
            self.assertIn(words, " ".join(output.split()), arguments)

    def test_a_failure_before_the_work_is_one_line(self) -> None:
        """An expected error is no traceback, whichever part of a command raises it."""
        status, output = invoke("zookeeper", "--data", self.mktemp(), "--salvage")
        self.assertEqual((status, output.count("\n")), (1, 1), output)
        self.assertIn("has no coordination tree", output)

    def test_output_that_cannot_be_written_is_a_failure(self) -> None:
        """A full disk is told in one line; a reader that is gone wants none."""
        for number, status, words in (
            (errno.ENOSPC, 1, "logd: [Errno 28] No space left on device\n"),
            (errno.EPIPE, 141, ""),
        ):
            result = CliRunner().invoke(failing(number), ["work"])
            self.assertEqual((result.exit_code, result.output), (status, words))

    def test_every_name_can_be_printed(self) -> None:
        """Names of files may be no UTF-8, and the terminal's encoding may lack their letters."""
        for encoding, text, written in (("utf-8", "a\udcff\xfc", b"a\\udcff\xc3\xbc"), ("ascii", "\xfc", b"\\xfc")):
            stream = TextIOWrapper(BytesIO(), encoding)
            print_any_name(stream)
            stream.write(text)
            stream.flush()
            self.assertEqual(stream.buffer.getvalue(), written)

    def test_every_command_explains_itself(self) -> None:
        """The help has each of its options and subcommands."""
        commands: list[tuple[list[str], click.Command]] = [([], main)]
        for path, command in commands:
            status, output = invoke(*path, "--help")
            self.assertEqual(status, 0)
            self.assertTrue(command.help, path)
            if isinstance(command, click.Group):
                for name, each in subcommands(command):
                    self.assertIn(name, output)
                    commands.append(([*path, name], each))
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    self.assertIn(parameter.opts[0], output)
        self.assertIn(["topics", "delete"], [path for path, _ in commands])

    def test_no_example_listens_to_strangers(self) -> None:
        """A port that other machines can reach is refused where it is open to everybody."""
        commands: list[tuple[str, click.Command]] = [("logd", main)]
        listening = 0
        for name, command in commands:
            if isinstance(command, click.Group):
                commands += subcommands(command)
            for example in re.findall(r".*(?:listen|--http) (?:tcp|ssl):.*", command.epilog or ""):
                listening += 1
                self.assertRegex(example, "interface=127.0.0.1|LOGD_ZOOKEEPER_DIGEST_FILE=|--open-to-network", name)
        self.assertGreater(listening, 3)

    def test_every_summary_fits_in_one_line(self) -> None:
        """Click would cut a longer one in eighty columns."""
        groups: list[tuple[list[str], click.Group]] = [([], main)]
        for path, group in groups:
            result = CliRunner().invoke(main, [*path, "--help"], terminal_width=80)
            lines = result.output.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
            members = subcommands(group)
            self.assertEqual([line.split()[0] for line in lines], [name for name, _ in members], path)
            for line in lines:
                self.assertRegex(line, r"^.{,80}(?<!\.)\.$")
            groups += [([*path, name], each) for name, each in members if isinstance(each, click.Group)]
        self.assertGreater(len(groups), 4)

    def test_a_late_import_has_its_listed_name(self) -> None:
        """Help lists names without importing the commands."""
        self.assertEqual([command.name for _, command in subcommands(main)], list(Commands.lazy))
        self.assertIn("No such command 'produces'", invoke("produces")[1])

    def test_the_first_two_commands_show_examples(self) -> None:
        """Most users begin with them."""
        for name in ("produce", "consume"):
            self.assertIn(f"Examples: logd {name}", " ".join(invoke(name, "--help")[1].split()))

    def test_the_version_is_the_projects(self) -> None:
        """A bug report quotes it."""
        self.assertEqual(invoke("--version"), (0, f"logd {__version__} (loops: {IMPLEMENTATION}; {REASON})\n"))
