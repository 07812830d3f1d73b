"""TLS of the gRPC listener: grpcio reads the files of every new connection anew when they have changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc

from goqueue.servers.doors import TlsFiles


def grpc_credentials(files: TlsFiles) -> Any:
    """Credentials of a server whose files may be replaced while it runs."""
    shown = _stamp(files)

    def changed() -> Any:
        nonlocal shown
        stamp = _stamp(files)
        if stamp == shown:
            return None
        try:
            made = _configuration(files)
        except OSError:
            # Being replaced at this moment: the next connection finds them.
            return None
        shown = stamp
        return made

    return grpc.dynamic_ssl_server_credentials(
        _configuration(files), changed, require_client_authentication=files.client_certificates == "required"
    )


def _configuration(files: TlsFiles) -> Any:
    authorities = Path(files.client_ca).read_bytes() if files.client_certificates != "none" else None
    pair = (Path(files.key).read_bytes(), Path(files.certificate).read_bytes())
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=authorities)


def _stamp(files: TlsFiles) -> tuple[object, ...]:
    found = [Path(name).stat() for name in (files.certificate, files.key, files.client_ca) if name]
    return tuple((one.st_mtime_ns, one.st_ino, one.st_size) for one in found)
