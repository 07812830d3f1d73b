"""A way to an HTTP server on which one answer is lost: in a process of its own, since clients may hold Python's lock.

python -m tests.lossy_way SERVER PATH FILE

The first answer to a PUT of PATH is not passed on; its status is written to FILE. The port is printed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@contextmanager
def lossy_way(server: str, path: str, lost: Path) -> Iterator[str]:
    """The address of the way."""
    command = [sys.executable, "-m", "tests.lossy_way", server, path, str(lost)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def main(server: str, path: str, lost: Path) -> None:
    """Pass requests on until the end."""

    class Way(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            to = HTTPConnection(server.removeprefix("http://"), timeout=60)
            to.request(self.command, self.path, body, dict(self.headers))
            answer = to.getresponse()
            content = answer.read()
            to.close()
            if self.command == "PUT" and path in self.path and not lost.exists():
                lost.write_text(str(answer.status))
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            is_head = self.command == "HEAD"
            self.send_header(
                "content-length", str(answer.getheader("content-length", "0") if is_head else len(content))
            )
            self.end_headers()
            if not is_head:
                self.wfile.write(content)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = do_any  # noqa: N815 - the names that the server calls

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Way) as way:
        print(way.server_port, flush=True)
        way.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
