"""A software bill of materials (CycloneDX 1.5, JSON) of the wheel in a folder, added to its SHA256SUMS.

    python tools/sbom.py dist

It lists what `pip install goqueue` brings with the versions that were tested together (constraints.txt).
"""

from __future__ import annotations

import hashlib
import json
import sys
from importlib import metadata
from pathlib import Path

from licences import closure, licence


def main() -> None:
    """Write it beside the wheel."""
    folder = Path(sys.argv[1])
    (wheel,) = folder.glob("*.whl")
    target = folder / f"{wheel.name.removesuffix('.whl')}.sbom.json"
    target.write_text(json.dumps(bill(wheel), indent=2) + "\n", encoding="utf-8")
    with (folder / "SHA256SUMS").open("a", encoding="utf-8") as sums:
        sums.write(f"{hashlib.sha256(target.read_bytes()).hexdigest()}  {target.name}\n")
    print(f"wrote {target}")


def bill(wheel: Path) -> dict[str, object]:
    """The document."""
    version = wheel.name.split("-")[1]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", **_names("goqueue", version)}},
        "components": [
            {
                "type": "library",
                **_names(name, metadata.version(name)),
                "licenses": [{"expression": licence(name)}],
            }
            for name in sorted(closure("goqueue", frozenset()) - {"goqueue"})
        ],
    }


def _names(name: str, version: str) -> dict[str, str]:
    address = f"pkg:pypi/{name}@{version}"
    return {"name": name, "version": version, "purl": address, "bom-ref": address}


if __name__ == "__main__":
    main()
