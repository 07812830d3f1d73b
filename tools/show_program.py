"""Show the version that a program of the newest wheel in a folder has: `show_program.py dist goqueue-cli`."""

from __future__ import annotations

import sys
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile


def main() -> None:
    """The program must be among the wheel's entry points."""
    folder, program = sys.argv[1:]
    wheel = max(Path(folder).glob("*.whl"), key=lambda path: path.stat().st_mtime)
    with ZipFile(wheel) as archive:
        told = {name.rpartition("/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
        programs = archive.read(told["entry_points.txt"]).decode()
        version = HeaderParser().parsestr(archive.read(told["METADATA"]).decode())["Version"]
    if f"\n{program} = " not in programs:
        sys.exit(f"{wheel.name} does not hold the program {program}")
    print(f"{program} {version} in {wheel}")


if __name__ == "__main__":
    main()
