"""`make bench-security`: what logins, access rules and TLS cost, against the same client without them.

    python -m tests.bench.bench_security [--quick]

One broker is open, one asks for logins and has 100 access rules; both have the same listeners, so that a listener which
nobody uses costs both the same. The same client works against both in turns, round by round. TLS is compared with
Apache Kafka too, if it is installed. Shares are given by time and by processor time of the broker, which other work on
the machine changes less. Prints a Markdown table; exit code 1 if a bar was not met.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from tests.bench import security_tls
from tests.bench.command import command, finish
from tests.bench.measure import Bar, at_least, told
from tests.bench.security_load import TOPIC, Way, consumed, in_turns, produced, published
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess
from tests.e2e.secured import SecuredBroker

RULES = 100


def bench(*, messages: int, requests: int, rounds: int) -> list[Bar]:
    """All bars."""
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as folder:
        secured = SecuredBroker(Path(folder) / "secured")
        plain = BrokerProcess(Path(folder) / "open", environment=secured.listeners()).start()
        try:
            Http(plain.http).post("/topics", {"name": TOPIC, "num_partitions": 1})
            secured.done("POST", "/topics", {"name": TOPIC, "num_partitions": 1})
            secured.user("bench")
            for operation, resource in (("write", "topic"), ("read", "topic"), ("read", "group")):
                secured.allow("bench", operation, resource, TOPIC)
            for number in range(RULES):
                secured.allow("bench", "read", "topic", f"other-{number}")
            made = secured.done("POST", "/admin/security/keys", {"principal": "User:bench"})
            return [
                *kafka(plain, secured, messages, rounds),
                *over_http(plain, secured, made["key"], requests, rounds),
                *security_tls.bars(_open_tls(plain, secured), secured.home, messages, rounds),
            ]
        finally:
            plain.stop()
            secured.stop()


def kafka(plain: BrokerProcess, secured: SecuredBroker, messages: int, rounds: int) -> list[Bar]:
    """Producing and fetching: open, with a login, with a login over TLS."""
    login = secured.confluent("bench")
    by_login = login | {"bootstrap.servers": secured.plain_kafka, "security.protocol": "SASL_PLAINTEXT"}
    ways = {
        "open": Way({"bootstrap.servers": plain.kafka}, (plain.pid,)),
        "login": Way(by_login, (secured.process.pid,)),
        "tls": Way(login, (secured.process.pid,)),
    }
    for way in ways.values():
        produced(way, messages // 4)
    written = in_turns({name: lambda way=way: produced(way, messages) for name, way in ways.items()}, rounds)
    read = in_turns({name: lambda way=way: consumed(way, messages) for name, way in ways.items()}, rounds)
    return [
        at_least("produce with SCRAM and 100 rules, share of open", written.share("login"), 0.97),
        told("the same by CPU of the broker", written.cpu_share("login")),
        at_least("fetch with SCRAM and 100 rules, share of open", read.share("login"), 0.97),
        told("the same by CPU of the broker", read.cpu_share("login")),
        told("produce over TLS, share of open", written.share("tls")),
        told("the same by CPU of the broker", written.cpu_share("tls")),
        told("fetch over TLS, share of open", read.share("tls")),
        told("the same by CPU of the broker", read.cpu_share("tls")),
        told("messages of 100 B produced, open, per second", median(written.rates["open"]), digits=0),
        told("messages of 100 B fetched, open, per second", median(read.rates["open"]), digits=0),
    ]


def over_http(plain: BrokerProcess, secured: SecuredBroker, key: str, requests: int, rounds: int) -> list[Bar]:
    """Single publishes on one connection that is kept."""
    address, shown = secured.plain_http.partition("://")[2], {"Authorization": f"Bearer {key}"}
    ways = {
        "open": Way({"address": plain.http, "headers": {}}, (plain.pid,)),
        "login": Way({"address": address, "headers": shown}, (secured.process.pid,)),
    }
    turns = in_turns({name: lambda way=way: published(way, requests) for name, way in ways.items()}, rounds)
    return [
        at_least("single HTTP publishes with an API key, share of open", turns.share("login"), 0.9),
        told("the same by CPU of the broker", turns.cpu_share("login")),
        told("CPU of the broker for a publish, open, microseconds", median(turns.cpus["open"]), digits=0),
        told("single HTTP publishes, open, per second", median(turns.rates["open"]), digits=0),
    ]


def _open_tls(plain: BrokerProcess, secured: SecuredBroker) -> Way:
    """The open broker's listener with TLS."""
    address = json.loads(plain.ready_file.read_text())["listeners"]["secure"]
    settings = {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.location": str(secured.ca)}
    return Way(settings, (plain.pid,))


def main() -> int:
    quick = command(__doc__).parse_args().quick
    sizes = {"messages": 20_000, "requests": 200, "rounds": 3}
    return finish(bench(**(sizes if quick else {"messages": 200_000, "requests": 2_000, "rounds": 7})), quick=quick)


if __name__ == "__main__":
    sys.exit(main())
