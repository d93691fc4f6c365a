"""What the wheels have inside them, compiled for an architecture and an old glibc by zig's clang.

Debian's own libraries are compiled for Debian's glibc, so the sources are taken, as Debian 13 has them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import tarfile
import urllib.request

import nanobind
import ziglang

GLIBC = "2.28"
TOOLCHAIN = pathlib.Path(__file__).with_name("toolchain.cmake")


@dataclasses.dataclass
class Source:
    path: str
    sha256: str
    options: tuple[str, ...] = ()  # of cmake
    folders: tuple[str, ...] = ()  # of headers to install, where the project does not

    @property
    def name(self) -> str:
        return self.path.split("/")[1]


SOURCES = (
    Source(
        "h/highway/highway_1.2.0.orig.tar.gz",
        "7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343",
        ("HWY_ENABLE_TESTS=OFF", "HWY_ENABLE_EXAMPLES=OFF", "HWY_ENABLE_CONTRIB=OFF", "BUILD_TESTING=OFF"),
        ("hwy/contrib",),
    ),
    Source(
        "n/nlohmann-json3/nlohmann-json3_3.11.3.orig.tar.gz",
        "0d8ef5af7f9794e3263480193c491549b2ba6cc74bb018906202ada498a79406",
        ("JSON_BuildTests=OFF",),
    ),
    Source(
        "p/pcre2/pcre2_10.46.orig.tar.gz",
        "8d28d7f2c3b970c3a4bf3776bcbb5adfc923183ce74bc8df1ebaad8c1985bd07",
        ("PCRE2_SUPPORT_JIT=ON", "PCRE2_BUILD_PCRE2GREP=OFF", "PCRE2_BUILD_TESTS=OFF"),
    ),
    Source(
        "u/utf8proc/utf8proc_2.8.0.orig.tar.gz",
        "a0a60a79fe6f6d54e7d411facbfcc867a6e198608f2cd992490e46f04b1bcecc",
        ("UTF8PROC_ENABLE_TESTING=OFF",),
    ),
    Source(
        "c/cli11/cli11_2.4.1+ds.orig.tar.xz",
        "0b8fbf2398875f15f30a675c7f412123a2aaa38df2863e991de72004fd5f1292",
        ("CLI11_BUILD_TESTS=OFF", "CLI11_BUILD_EXAMPLES=OFF", "CLI11_BUILD_DOCS=OFF"),
    ),
    Source(
        "z/zlib/zlib_1.3.dfsg+really1.3.1.orig.tar.gz",
        "60dd315c07f616887caa029408308a018ace66e3d142726a97db164b3b8f69fb",
    ),
    Source(
        "libp/libpng1.6/libpng1.6_1.6.48.orig.tar.gz",
        "b17e99026055727e8cba99160c3a9a7f9af788e9f786daeadded5a42243f1dd0",
        ("PNG_SHARED=OFF", "PNG_TESTS=OFF", "PNG_TOOLS=OFF"),
    ),
)


def run(*command: str | os.PathLike[str], **keywords: object) -> None:
    """Its output is shown if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **keywords)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{' '.join(map(str, command))}: exit code {done.returncode}, expected 0")


def mirror() -> str:
    """Of Debian: the one that apt uses, or DEBIAN_MIRROR."""
    if given := os.environ.get("DEBIAN_MIRROR"):
        return given.rstrip("/")
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True, check=True
    ).stdout.split()
    for uri in targets:
        if uri.endswith("/debian/"):
            return uri.rstrip("/")
    raise SystemExit("apt-get indextargets: no mirror of Debian, expected one, or its address in DEBIAN_MIRROR")


def unpack(source: Source, downloads: pathlib.Path, to: pathlib.Path) -> None:
    """Without the folder that everything in the archive is in."""
    archive = downloads / pathlib.Path(source.path).name
    if not archive.exists():
        downloads.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(f"{mirror()}/pool/main/{source.path}") as answer:
            archive.write_bytes(answer.read())
    if (given := hashlib.sha256(archive.read_bytes()).hexdigest()) != source.sha256:
        raise SystemExit(f"{archive}: SHA-256 {given}, expected {source.sha256}")
    with tarfile.open(archive) as tar:
        for member in tar:
            member.name = member.name.partition("/")[2]
            if member.name:
                tar.extract(member, to, filter="data")


def write_compilers(arch: str, prefix: pathlib.Path) -> None:
    zig = pathlib.Path(ziglang.__file__).with_name("zig")
    target = f"-target {arch}-linux-gnu.{GLIBC}"
    (prefix / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("cc", "c++", "ar", "ranlib"):
        wrapper = prefix / "bin" / name
        wrapper.write_text(f'#!/bin/sh\nexec {zig} {name} {target if name in ("cc", "c++") else ""} "$@"\n')
        wrapper.chmod(0o755)


def install_with_cmake(source: Source, folder: pathlib.Path, arch: str, prefix: pathlib.Path) -> None:
    options = [f"-D{option}" for option in (*source.options, "BUILD_SHARED_LIBS=OFF", "CMAKE_BUILD_TYPE=Release")]
    places = [f"-DCMAKE_INSTALL_PREFIX={prefix}", "-DCMAKE_INSTALL_LIBDIR=lib", f"-DPHASOR_PREFIX={prefix}"]
    run("cmake", "-G", "Ninja", "-S", folder, "-B", folder / "built", f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN}",
        f"-DPHASOR_ARCH={arch}", *places, *options)  # fmt: skip
    run("cmake", "--build", folder / "built", "--target", "install")


def install_zlib(folder: pathlib.Path, arch: str, prefix: pathlib.Path) -> None:
    """By its own script: Debian's archive lacks a file that its CMakeLists.txt names."""
    tools = {"CC": "cc", "AR": "ar", "RANLIB": "ranlib"}
    environment = {name: str(prefix / "bin" / tool) for name, tool in tools.items()}
    environment |= {"CHOST": f"{arch}-linux-gnu", "CFLAGS": "-O3 -fPIC"}
    run("./configure", "--static", f"--prefix={prefix}", cwd=folder, env=os.environ | environment)
    run("make", "libz.a", "install", cwd=folder, env=os.environ | environment)


def copy_notices(source: Source, folder: pathlib.Path, prefix: pathlib.Path) -> None:
    for license in folder.glob("LICEN[CS]E*"):
        if license.is_file():
            shutil.copy(license, prefix / "notices" / f"{source.name}-{license.name}")


def build(arch: str, work: pathlib.Path) -> pathlib.Path:
    """The prefix that has all of them, the compilers in bin, and the licenses in notices."""
    prefix = work / arch / "prefix"
    done = prefix / "done"
    if done.exists() and done.stat().st_mtime > pathlib.Path(__file__).stat().st_mtime:
        return prefix
    shutil.rmtree(prefix, ignore_errors=True)
    write_compilers(arch, prefix)
    (prefix / "notices").mkdir()
    for source in SOURCES:
        folder = work / arch / "sources" / source.name
        shutil.rmtree(folder, ignore_errors=True)
        unpack(source, work / "downloads", folder)
        if source.name == "zlib":
            install_zlib(folder, arch, prefix)
        else:
            install_with_cmake(source, folder, arch, prefix)
        for headers in source.folders:
            shutil.copytree(folder / headers, prefix / "include" / headers, dirs_exist_ok=True)
        copy_notices(source, folder, prefix)
    packages = pathlib.Path(nanobind.__file__).parents[1]
    shutil.copy(next(packages.glob("nanobind-*.dist-info/licenses/LICENSE")), prefix / "notices/nanobind-LICENSE")
    shutil.copy(packages / "ziglang/lib/libcxx/LICENSE.TXT", prefix / "notices/libcxx-LICENSE.TXT")
    done.touch()
    return prefix
