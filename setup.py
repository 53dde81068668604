"""Builds the compiled loops where there is a C compiler; without one, logd is installed all the same."""

from pathlib import Path
from zlib import crc32

from setuptools import Extension, setup

SOURCE = "logd/protocol/_compiled.c"

setup(
    ext_modules=[
        Extension(
            "logd.protocol._compiled",
            [SOURCE],
            # logd.protocol.implementation uses no extension that was built from another source than the one beside it.
            define_macros=[("SOURCE_CRC", f"{crc32(Path(__file__).parent.joinpath(SOURCE).read_bytes()):#x}U")],
            extra_compile_args=["-std=c11", "-O3"],
            optional=True,
        )
    ]
)
