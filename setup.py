"""Builds the compiled loops where there is a C compiler; without one, logd is installed all the same."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "logd.protocol._compiled",
            ["logd/protocol/_compiled.c"],
            extra_compile_args=["-std=c11", "-O3"],
            optional=True,
        )
    ]
)
