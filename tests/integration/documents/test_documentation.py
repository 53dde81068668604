"""README and docs: every fenced block runs as it stands, in order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.documentation.pages import ROOT, Block, Typed, blocks_of, indented, pages, typed

#: The longest time of one page, in seconds.
PATIENCE = 1200.0
#: A network, mounts and processes of their own, which all end with the first of them.
_ISOLATED = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
#: Lets go of the disks of other tests: a mount of its own would keep one busy, and its failed pages, behind the end of
#: theirs.
_WITHOUT_DISKS = ("sh", "-c", 'grep ^/dev/loop /proc/self/mounts | cut -d" " -f2 | xargs -r umount -l; exec "$@"', "sh")


class BlocksTests(SynchronousTestCase):
    """The reader of pages."""

    def test_a_block_has_its_line_language_file_and_comments(self) -> None:
        """The comments above a fence tell the test what a reader of the page need not see."""
        page = "text\n<!-- stop -->\n<!-- then: logd topics list -->\n```python a.tac\nx = 1\n```\n"
        (block,) = blocks_of(page)
        self.assertEqual(block, Block(4, "python", "a.tac", "x = 1\n", (("stop", ""), ("then", "logd topics list"))))

    def test_mistakes_of_a_page_are_errors(self) -> None:
        """A block with an open fence, an unknown language or a stray comment would otherwise silently not run."""
        for page, words in (
            ("```sh\nx\n", "not closed"),
            ("```\nx\n```\n", "no language"),
            ("<!-- stop -->\ntext\n", "above a fence"),
        ):
            error = self.assertRaises(ValueError, list, blocks_of(page))
            self.assertIn(words, str(error))

    def test_a_command_is_told_from_its_output(self) -> None:
        """A command may go on in the next line behind '> '; all other lines are its output."""
        block = Block(1, "console", "", "$ a \\\n> b\n$ c\none\ntwo\n")
        self.assertEqual(typed(block), [Typed("a \\\nb"), Typed("c", ("one", "two"))])

    def test_every_page_can_be_read(self) -> None:
        """A page that could not be read would be skipped; fewer than five blocks may be marked as not run."""
        found = [block for page in pages() for block in blocks_of(page.read_text(encoding="utf-8"))]
        self.assertGreater(len(found), 30)
        left_out = [block for block in found if block.comment("not run") is not None]
        self.assertLess(len(left_out), 5)

    def test_samples_are_always_fenced(self) -> None:
        """README and the page on clients have no sample that is only indented, which no test would run."""
        for page in (ROOT / "README.md", ROOT / "docs" / "clients.md"):
            self.assertEqual(list(indented(page.read_text(encoding="utf-8"))), [], page.name)
        self.assertEqual(list(indented("a\n\n    b\n- c\n\n    d\n```sh\n\n    e\n```\n")), [(3, "    b")])

    def test_no_data_directory_is_inside_that_of_another_page(self) -> None:
        """A person follows one page after the other: `logd verify` and the broker report what is not a log's."""
        found = {
            match.rstrip("/")
            for page in pages()
            for block in blocks_of(page.read_text(encoding="utf-8"))
            for match in re.findall(r"--data (/tmp/\S+)", block.text)
        }
        self.assertGreater(len(found), 10)
        inside = [f"{one} is in {other}" for one in found for other in found if one.startswith(f"{other}/")]
        self.assertEqual(sorted(inside), [])


class PageTests(SynchronousTestCase):
    """Each page, with real servers at the ports that it names."""

    def follow(self, name: str) -> None:
        """Run all blocks of a page, in namespaces of their own."""
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            raise SkipTest("a network and mounts of its own need root and unshare")
        folder = Path(os.path.abspath(self.mktemp()))
        done = subprocess.run(
            [
                *_ISOLATED,
                *_WITHOUT_DISKS,
                sys.executable,
                "-m",
                "tests.documentation.reader",
                str(ROOT / name),
                str(folder),
            ],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def _test_of(name: str) -> None:
    def test(self: PageTests) -> None:
        self.follow(name)

    test.__doc__ = f"Every block of {name} runs in order, and shows what stands there."
    setattr(PageTests, f"test_the_page_{Path(name).stem.lower().replace('-', '_')}_can_be_followed", test)


for _page in pages():
    if any(block.language not in ("text", "vectors", "tree") for block in blocks_of(_page.read_text(encoding="utf-8"))):
        _test_of(str(_page.relative_to(ROOT)))
