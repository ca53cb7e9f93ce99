"""Hands the native build to scripts/native_build.py; everything else is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).resolve().parent / "scripts"))
import native_build  # noqa: E402  (needs the path above)


class NinjaBuild(build_ext):
    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        native_build.build_extension(target, native_build.ROOT / "build" / "native")


setup(ext_modules=[Extension("torch_spyre._C", sources=[])], cmdclass={"build_ext": NinjaBuild})
