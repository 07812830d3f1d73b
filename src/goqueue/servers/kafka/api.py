"""What a handler is: an `API` that says what it answers, and a `handle` that answers it.

One file per API in `handlers/`, listed once in `registry.py`:

    API = Api(key=12, name="Heartbeat", versions=(0, 4))

    def handle(context: Context, request: Message) -> Reply | Awaitable[Reply]: ...

A request has every field of every version of its API; those that its version lacks hold
Kafka's default. A reply is a plain mapping of the response's field names; what the
version lacks is dropped, what the reply leaves out is Kafka's default. Names are those of
Kafka's schemas in snake case, as `messages.txt` lists them. In both directions times are
integers in milliseconds, error codes are integers, ids are `UUID` (None for the zero id),
arrays are lists or tuples.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from goqueue.errors import GoQueueError, StorageError, wire_of

if TYPE_CHECKING:
    from goqueue.servers.kafka.connections.peer import Peer
    from goqueue.servers.kafka.reading.fetch_sessions import FetchSessions
    from goqueue.servers.kafka.reading.share_sessions import ShareSessions
    from goqueue.servers.services import Services

# A decoded request: attributes named as in messages.txt. Its shape is data, not a type.
Message = Any

Reply = Mapping[str, object]

# What `handle` returns. None sends nothing (Produce with acks=0). An awaitable is answered
# when it is done, in the order of the connection's requests.
Answer = Reply | None | Awaitable[Reply | None]

NONE = 0
UNKNOWN_SERVER_ERROR = -1
INVALID_REQUEST = 42
UNSUPPORTED_VERSION = 35


class Order(Enum):
    """When a request may start, given the unanswered requests before it on its connection.

    Kafka works on one request of a connection at a time. Here several are worked on at once, as long as no
    request can see less than what the requests before it have done.
    """

    # Starts when no change and no commit is unanswered.
    READ = "read"
    # Like a read. When it cannot answer at once it is creating something, and is a change from then on.
    CREATING_READ = "creating read"
    # Starts when no change is unanswered, and is applied in the order of arrival: Produce.
    WRITE = "write"
    # Like a write, but reads behind it wait for its answer: its coordinator applies commits in order.
    COMMIT = "commit"
    # Starts when everything before it but polls is answered; everything behind it waits for its answer.
    CHANGE = "change"
    # Starts when no change is unanswered, and may stay unanswered for long: nothing waits for it.
    POLL = "poll"


@dataclass(frozen=True, slots=True)
class Api:
    """One Kafka API as we serve it. `gaps` are sentences for the compatibility page."""

    key: int
    name: str
    versions: tuple[int, int]
    gaps: tuple[str, ...] = ()
    # What clients are told instead of versions[0], where Kafka itself tells them a lower one.
    advertised_from: int | None = None
    # Waiting for the answer is all that it does: when the client has gone, so may the work.
    ends_with_client: bool = False
    order: Order = Order.READ


@dataclass(frozen=True, slots=True)
class Context:
    """Who asks, in which version, and what the handler may use to answer."""

    # Bound to the caller: what is done with them is done in its name.
    services: Services
    api_version: int
    client_id: str
    share_sessions: ShareSessions
    fetch_sessions: FetchSessions
    # Whose connection it is.
    peer: Peer

    @property
    def client_host(self) -> str:
        """Where the client is."""
        return self.peer.address


class Handler(Protocol):
    """A module of `handlers/`."""

    API: Api

    def handle(self, context: Context, request: Message, /) -> Answer:
        """Answer at once, or with an awaitable when something must be waited for."""
        ...


def error_code(error: BaseException | None) -> int:
    """The number of this error on Kafka's wire; 0 when there is none."""
    if error is None:
        return NONE
    # What the disk refuses is raised as it comes; on the wire it is a failure of storage.
    return wire_of(StorageError() if isinstance(error, OSError) else error).kafka


def error_message(error: BaseException | None) -> str | None:
    """The text that goes beside the number. What is not ours to tell stays in the log."""
    if error is None:
        return None
    if not isinstance(error, GoQueueError):
        return "the broker failed to answer; its log says why"
    return f"{error}: {error.hint}" if error.hint else str(error)


def failed(error: BaseException) -> dict[str, object]:
    """The two fields that most responses carry for an error."""
    return {"error_code": error_code(error), "error_message": error_message(error)}


def when_open(opening: Awaitable[None] | None, answer: Callable[[], Reply]) -> Reply | Awaitable[Reply]:
    """The answer at once, or once the partitions that it is about are open."""
    return answer() if opening is None else _answered_after(opening, answer)


async def _answered_after(opening: Awaitable[None], answer: Callable[[], Reply]) -> Reply:
    await opening
    return answer()
