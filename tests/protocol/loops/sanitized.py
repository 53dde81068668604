"""Runs the tests of the loops on an extension built with AddressSanitizer and UndefinedBehaviorSanitizer.

``python -m tests.protocol.loops.sanitized [tests]``. Needs gcc with its sanitizers; the built extension of the checkout
stays as it is. Any report of a sanitizer ends the run with its words and a status other than 0.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

ROOT = Path(__file__).resolve().parents[3]
NAME = "logd.protocol._compiled"
TESTS = ("tests.protocol.loops", "tests.protocol.test_checksums", "tests.protocol.test_fuzzing")
#: Python is built with -fwrapv, which would hide an overflow; -O1 keeps all checks and useful lines.
FLAGS = ("-std=c11", "-O1", "-g", "-fno-wrapv", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-fPIC", "-shared")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")

#: Puts the extension where the loops look for it, then goes on as trial.
BOOTSTRAP = f"""
import sys
from importlib.util import module_from_spec, spec_from_file_location
import logd.protocol
spec = spec_from_file_location({NAME!r}, sys.argv.pop(1))
logd.protocol._compiled = sys.modules[{NAME!r}] = module_from_spec(spec)
spec.loader.exec_module(sys.modules[{NAME!r}])
from twisted.scripts.trial import run
sys.argv[0] = "trial"
sys.exit(run())
"""


def main(tests: list[str]) -> int:
    """Build the extension, run the tests, and return trial's status."""
    with TemporaryDirectory() as folder:
        extension = Path(folder, "_compiled.so")
        source = ROOT.joinpath(*NAME.split(".")).with_suffix(".c")
        include = f"-I{sysconfig.get_paths()['include']}"
        unused = ("-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Wno-cast-function-type", "-Werror")
        macro = f"-DSOURCE_CRC={crc32(source.read_bytes()):#x}U"
        subprocess.run(["gcc", *FLAGS, *SANITIZERS, *unused, include, macro, source, "-o", extension], check=True)
        library = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
        environment = {
            **os.environ,
            "LD_PRELOAD": library.stdout.strip(),
            "LOGD_LOOPS": "compiled",
            # Python's own pools would hide an access beyond an object; its leaks at exit are not ours.
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        program = [sys.executable, "-c", BOOTSTRAP, str(extension), "--temp-directory", str(Path(folder, "trial"))]
        return subprocess.run([*program, *tests], env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(TESTS)))
