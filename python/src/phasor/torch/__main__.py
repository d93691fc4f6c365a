"""python -m phasor.torch [--report] (script.py | -m module) [arguments]: runs a program with phasor.torch.enable()."""

from __future__ import annotations

import argparse
import atexit
import os
import runpy
import sys

import phasor.torch


def _print_report() -> None:
    print(phasor.torch.report(), file=sys.stderr)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m phasor.torch",
        description="Runs a Python program whose torch attention on the CPU phasor computes (phasor.torch.enable()).",
    )
    parser.add_argument("--report", action="store_true", help="at the end, print to stderr which calls phasor computed")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="a module and its arguments, as python -m has")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="a script and its arguments")
    options = parser.parse_args(arguments)
    if not (options.module or options.script):
        parser.error("expected a script, or -m and a module")
    return options


def main() -> None:
    options = _parse(sys.argv[1:])
    if options.report:
        atexit.register(_print_report)
    phasor.torch.enable()
    if options.module:
        sys.argv[:] = options.module
        sys.path[0] = os.getcwd()
        runpy.run_module(options.module[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = options.script
        sys.path[0] = os.path.dirname(os.path.abspath(options.script[0]))
        runpy.run_path(options.script[0], run_name="__main__")


if __name__ == "__main__":
    main()
