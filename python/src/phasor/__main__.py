"""python -m phasor, and the command phasor: the command-line tool, which lies in the package."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    """Becomes the tool, with the arguments of this process."""
    tool = pathlib.Path(__file__).with_name("bin") / "phasor"
    if not tool.exists():
        sys.exit(f"phasor: {tool} is not there: this package was built with PHASOR_BUILD_TOOLS=OFF, expected ON")
    os.execv(tool, ["phasor", *sys.argv[1:]])


if __name__ == "__main__":
    main()
