"""Who makes a gRPC call. Calls of a principal that loses an access are ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.errors import AuthenticationRequired
from goqueue.servers.header_login import HeaderLogin

if TYPE_CHECKING:
    from goqueue.caller import Caller
    from goqueue.security.service import Security
    from goqueue.security.store import Losers
    from goqueue.servers.services import Services

_REVOKED_SECONDS = 0.1


class GrpcLogin:
    """Every call passes here before its method."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._headers = HeaderLogin(security.authenticator)
        self._in_flight: dict[asyncio.Task[Any], str] = {}
        # Calls that were cancelled here, and not by their client or by a stop.
        self._ended: set[asyncio.Task[Any]] = set()
        security.store.subscribe(self._revoke)

    async def enter(self, services: Services, context: Any, caller: Caller) -> Services:
        """The services as the caller may use them; raises if it does not say who it is."""
        said = {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
        identity = await self._headers.identity(said.get, _certificate(context), caller.address, context.peer())
        if identity is None:
            raise AuthenticationRequired
        bound = services.for_caller(msgspec.structs.replace(caller, principal=identity.principal))
        self._watch(identity.principal, identity.expires_ms)
        return bound

    def _watch(self, principal: str, expires_ms: int) -> None:
        """The call ends when its principal loses an access or its credential expires."""
        task = asyncio.current_task()
        if task is None:
            return
        self._in_flight[task] = principal
        task.add_done_callback(self._forget)
        if expires_ms:
            seconds = max((expires_ms - self._security.clock.now_ms()) / 1000, 0)
            timer = asyncio.get_running_loop().call_later(seconds, self._end, task)
            task.add_done_callback(lambda _: timer.cancel())

    def has_ended(self) -> bool:
        """Whether the call that runs now was cancelled because its credential or an access is gone.

        grpcio answers nothing to a call that is cancelled, so the call must still be refused: it goes on for that.
        """
        task = asyncio.current_task()
        if task is None or task not in self._ended:
            return False
        self._ended.discard(task)
        task.uncancel()
        return True

    def _revoke(self, principals: Losers) -> None:
        loop = asyncio.get_running_loop()
        for task, principal in self._in_flight.items():
            if principals is None or principal in principals:
                # Not at once: it may be the call that made the change.
                loop.call_later(_REVOKED_SECONDS, self._end, task)

    def _end(self, task: asyncio.Task[Any]) -> None:
        if task in self._in_flight:
            self._ended.add(task)
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._in_flight.pop(task, None)
        self._ended.discard(task)


def _certificate(context: Any) -> dict[str, Any] | None:
    """The client certificate that TLS has verified, in the form in which Python's own TLS gives it."""
    found = context.auth_context().get("x509_pem_cert")
    if not found:
        return None
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(found[0])
    subject = tuple(
        tuple((one.oid._name, str(one.value)) for one in relative)  # noqa: SLF001 - the name that Python's TLS uses too
        for relative in certificate.subject.rdns
    )
    return {"subject": subject}
