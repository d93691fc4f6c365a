#!/usr/bin/env python3
"""build.py [--arch ARCH ...] PYTHON ...: wheels in build/wheels/dist, and the sdist.

The library and the tool are compiled once for each architecture, the extension for each interpreter: one of Python 3.12
or newer makes the wheel of the stable ABI. Of an interpreter only the headers are used, which are the same for both
architectures.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import dependencies
from dependencies import GLIBC, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "wheels"
DIST = WORK / "dist"
LARGEST = 15e6  # bytes
STABLE = (3, 12)  # as wheel.py-api of pyproject.toml


@dataclasses.dataclass
class Python:
    executable: str
    version: tuple[int, int]
    include: pathlib.Path
    config_header: pathlib.Path

    @property
    def is_stable(self) -> bool:
        return self.version >= STABLE

    @property
    def tag(self) -> str:
        major, minor = STABLE if self.is_stable else self.version
        return f"cp{major}{minor}"


def python(executable: str) -> Python:
    code = (
        "import json, sys, sysconfig; "
        "print(json.dumps([sys.executable, sys.version_info[:2], sysconfig.get_path('include'), sysconfig.get_config_h_filename()]))"
    )
    try:
        answer = subprocess.run([executable, "-c", code], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"{executable}: {error}, expected a Python with its headers") from None
    path, version, include, config_header = json.loads(answer)
    if not pathlib.Path(include, "Python.h").exists():
        raise SystemExit(f"{executable}: no Python.h in {include}, expected its headers")
    return Python(path, tuple(version), pathlib.Path(include), pathlib.Path(config_header))


def copy_headers(python: Python) -> pathlib.Path:
    """In a folder of their own: those of a system lie beside the headers of its glibc."""
    headers = WORK / "headers" / python.tag
    shutil.rmtree(headers, ignore_errors=True)
    shutil.copytree(python.include, headers)
    shutil.copy(python.config_header, headers / "pyconfig.h")
    return headers


def build_package(arch: str, python: Python, prefix: pathlib.Path) -> pathlib.Path:
    """The folder that has the files of the wheel."""
    folder = WORK / arch / "build"
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_TOOLCHAIN_FILE": dependencies.TOOLCHAIN,
        "PHASOR_ARCH": arch,
        "PHASOR_PREFIX": prefix,
        "PHASOR_NOTICES": prefix / "notices",
        "PHASOR_WARNINGS_AS_ERRORS": "ON",
        "PHASOR_BUILD_PYTHON": "ON",
        "PHASOR_BUILD_TESTS": "OFF",
        "PHASOR_BUILD_EXAMPLES": "OFF",
        "Python_EXECUTABLE": python.executable,
        "Python_INCLUDE_DIR": copy_headers(python),
        "SKBUILD_SOABI": f"cpython-{''.join(map(str, python.version))}-{arch}-linux-gnu",
        "SKBUILD_SOSABI": "abi3",
        "SKBUILD_SABI_VERSION": ".".join(map(str, STABLE)) if python.is_stable else "",
    }
    # nanobind is pure Python, so that of this environment serves any interpreter.
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(dependencies.nanobind.__file__).parents[1])}
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "-UPython*", "-U_Python*", "-Unanobind*", "-UNB_*",
        *(f"-D{name}={value}" for name, value in options.items()), env=environment)  # fmt: skip
    run("cmake", "--build", folder, "--target", "python_package")
    stage = WORK / arch / python.tag
    shutil.rmtree(stage, ignore_errors=True)
    run("cmake", "--install", folder, "--component", "python", "--prefix", stage)
    return stage


def pack(stage: pathlib.Path, arch: str, python: Python) -> pathlib.Path:
    """The wheel: pyproject.toml's metadata, the files of the folder, and the tags that they were built for."""
    made = WORK / arch / f"{python.tag}-wheel"
    shutil.rmtree(made, ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", made, ROOT,
        "--config-settings=wheel.cmake=false", "--config-settings=wheel.platlib=true")  # fmt: skip
    run(sys.executable, "-m", "wheel", "unpack", "--dest", made, next(made.glob("*.whl")))
    shutil.copytree(stage, next(made.glob("phasor_attention-*[0-9]")), dirs_exist_ok=True)
    next(made.glob("*.whl")).unlink()
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", made, next(made.glob("phasor_attention-*[0-9]")))
    abi = "abi3" if python.is_stable else python.tag
    run(sys.executable, "-m", "wheel", "tags", "--remove", "--python-tag", python.tag, "--abi-tag", abi,
        "--platform-tag", f"manylinux_{GLIBC.replace('.', '_')}_{arch}", next(made.glob("*.whl")))  # fmt: skip
    return pathlib.Path(shutil.copy(next(made.glob("*.whl")), DIST))


def build_sdist() -> None:
    """From a copy of what git has: scikit-build-core looks into every folder, also those that git ignores."""
    copy = WORK / "source"
    shutil.rmtree(copy, ignore_errors=True)
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", DIST, copy)


def check(wheel: pathlib.Path) -> None:
    """The tag of its name is the one that auditwheel finds, the tool is there, and it is small."""
    size = wheel.stat().st_size
    if size > LARGEST:
        raise SystemExit(f"{wheel.name}: {size} bytes, expected at most {LARGEST:.0f}")
    platform = wheel.stem.split("-")[-1]
    report = subprocess.run([sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True)
    if f'is consistent with the following platform tag: "{platform}"' not in " ".join(report.stdout.split()):
        raise SystemExit(f"{report.stdout}{report.stderr}\n{wheel.name}: auditwheel's tag, expected {platform}")
    with zipfile.ZipFile(wheel) as archive:
        suffix = ".abi3.so" if "-abi3-" in wheel.name else f"{platform.partition('28_')[2]}-linux-gnu.so"
        if not any(name.startswith("phasor/_phasor.") and name.endswith(suffix) for name in archive.namelist()):
            raise SystemExit(f"{wheel.name}: no phasor/_phasor*{suffix}, expected the extension for its tag")
        if not archive.getinfo("phasor/bin/phasor").external_attr >> 16 & 0o111:
            raise SystemExit(f"{wheel.name}: phasor/bin/phasor is not executable, expected a program")
    print(f"{wheel.name}: {size / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", nargs="+", choices=("x86_64", "aarch64"), default=["x86_64", "aarch64"])
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    arguments = parser.parse_args()
    os.environ["PATH"] = f"{sys.prefix}/bin:{os.environ['PATH']}"  # this environment's cmake
    pythons = [python(executable) for executable in arguments.pythons]
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(parents=True)
    build_sdist()
    for arch in arguments.arch:
        prefix = dependencies.build(arch, WORK)
        for one in pythons:
            check(pack(build_package(arch, one, prefix), arch, one))


if __name__ == "__main__":
    main()
