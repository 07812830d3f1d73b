"""Looks for credentials in the files that git tracks: private keys, API keys of GoQueue and of others.

A line that ends in `secret-scan: allow` is left out; it is for examples that are no secrets.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PATTERNS = {
    "private key": re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s*\n?[A-Za-z0-9+/=]{16}"),
    "API key of GoQueue": re.compile(r"\bgq_[0-9a-f]{12}_[A-Za-z0-9_-]{40,}"),
    "key of AWS": re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
    "token of GitHub": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    "token": re.compile(r"\beyJ[A-Za-z0-9_-]{20,}\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"),
    "password in a URL": re.compile(r"\b[a-z+]{3,12}://[^/\s:@\"'{}$<>]{1,40}:[^/\s:@\"'{}$<>]{8,}@[a-z]"),
}
ALLOWED = "secret-scan: allow"
BYTES_MAX = 2 * 1024 * 1024


def problems_in(name: str, text: str) -> list[str]:
    """What looks like a credential, by line."""
    found = []
    for kind, pattern in PATTERNS.items():
        for match in pattern.finditer(text):
            start = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.end())
            if ALLOWED not in text[start : end if end >= 0 else len(text)]:
                found.append(f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {kind}")
    return found


def main() -> int:
    """Scan all tracked files; 1 if something was found."""
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout
    problems = []
    for name in filter(None, listed.decode().split("\0")):
        path = Path(name)
        if path.is_file() and path.stat().st_size <= BYTES_MAX:
            problems += problems_in(name, path.read_text(encoding="utf-8", errors="replace"))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
