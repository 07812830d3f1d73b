"""`python -m goqueue`: the same command line as `goqueue`."""

from __future__ import annotations

from goqueue.cli.main import main

if __name__ == "__main__":
    main()
