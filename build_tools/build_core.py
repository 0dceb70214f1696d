"""Builds banditmips.core, one module of which holds the C files, and the few compiled modules beside it."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import c_compiler
from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

CORE = Path("src/banditmips/core")
C_FILES = CORE / "c"
KERNELS = "banditmips.core.kernels"
"""The module that holds the C files; the others call them through it."""

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
}
# Only reassociation is taken from fast-math, with what it needs: NaN and Inf keep their meaning. There is no -march:
# the C files choose at run time what the processor can do. Without -g0, Python's own -g makes modules several times as
# large.
OPTIMISED = [
    "-O3",
    "-g0",
    "-fno-math-errno",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fassociative-math",
    "-fvisibility=hidden",
]
OPTIMISED_BY_MSVC = ["/O2"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
# Not optimised: a quarter of the time to compile, and nothing is optimised away that they would have noticed.
SANITIZED = ["-O0", "-g1", "-fno-omit-frame-pointer", *SANITIZERS]
MACROS: list[tuple[str, str | None]] = [
    ("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION"),
    # The oldest NumPy that the modules run with (1.26 kept the interface of 1.25); its headers are of NumPy 2.
    ("NPY_TARGET_VERSION", "NPY_1_25_API_VERSION"),
]


class BuildCore(build_ext):
    """Compiles the C files once, links them into the one module that hands them out, and builds all side by side."""

    user_options: ClassVar = [*build_ext.user_options, ("sanitize", None, "with GCC's or Clang's sanitizers")]
    boolean_options: ClassVar = [*build_ext.boolean_options, "sanitize"]

    def initialize_options(self) -> None:
        super().initialize_options()
        self.sanitize = False

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count() or 1

    def run(self) -> None:
        c_compiler.choose()
        super().run()

    def build_extensions(self) -> None:
        """Translate every module from Cython to C, compile what all of them share, then the modules."""
        if not self.extensions:
            return
        import Cython
        import numpy as np
        from Cython.Build import cythonize

        shared = Shared(self, [np.get_include(), str(CORE), str(C_FILES)], self._flags())
        translated = cythonize(
            self.extensions,
            include_path=["src"],
            build_dir=f"build/cython-{Cython.__version__}",  # the same text for all flags: translated once
            compiler_directives=DIRECTIVES,
            force=self.force,
        )
        for extension, in_c in zip(self.extensions, translated, strict=True):
            extension.sources = in_c.sources
            shared.add_to(extension)
            extension.extra_link_args += SANITIZERS if self.sanitize else []
        super().build_extensions()

    def _flags(self) -> list[str]:
        if self.sanitize:
            return SANITIZED
        return OPTIMISED_BY_MSVC if self.compiler.compiler_type == "msvc" else OPTIMISED


class Shared:
    """What every module gets, include folders and flags, and the objects of the hand-written C files."""

    def __init__(self, command: BuildCore, include_dirs: list[str], flags: list[str]) -> None:
        self.include_dirs = include_dirs
        self.flags = flags
        sources = sorted(str(file) for file in C_FILES.glob("*.c"))
        self.depends = ["setup.py", __file__, *sources, *(str(file) for file in C_FILES.glob("*.h"))]
        # Here rather than among each module's sources: modules built side by side would write the same object files.
        self.objects = command.compiler.object_filenames(sources, output_dir=command.build_temp)

        def compile_one(source: str, compiled: str) -> None:
            if command.force or newer_group(self.depends, compiled):
                command.compiler.compile(
                    [source], output_dir=command.build_temp, include_dirs=include_dirs, extra_postargs=flags
                )

        with ThreadPoolExecutor(command.parallel) as pool:
            list(pool.map(compile_one, sources, self.objects))

    def add_to(self, extension: Extension) -> None:
        """Make `extension` a module of the core."""
        extension.include_dirs += self.include_dirs
        extension.extra_compile_args += self.flags
        extension.define_macros += MACROS
        if extension.name == KERNELS:
            extension.extra_objects += self.objects
        extension.depends += self.depends
