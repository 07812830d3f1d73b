"""Settings of what clients reach: listeners, TLS, logins, HTTP and gRPC."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.config.declaring import MIB, setting


@dataclass(frozen=True, slots=True)
class ListenersConfig:
    """Where clients connect. Loopback only, until security is configured."""

    kafka: str = setting(
        "127.0.0.1:9092",
        "Address of the listener `kafka`, host:port, or tls://host:port; port 0 takes a free one. Empty: none, if "
        "`named` has one.",
        env="GOQUEUE_LISTENERS_KAFKA",
        flag="--kafka",
    )
    advertised_kafka: str = setting(
        "",
        "Address that Kafka clients are told to use; empty means the one listened on.",
        env="GOQUEUE_LISTENERS_ADVERTISED_KAFKA",
        flag="--advertised-kafka",
    )
    http: str = setting(
        "127.0.0.1:8080",
        "Address of the listener `http`, host:port, or tls://host:port; port 0 takes a free one. Empty: none, if "
        "`named` has one.",
        env="GOQUEUE_LISTENERS_HTTP",
        flag="--http",
    )
    grpc: str = setting(
        "",
        "Address of the listener `grpc`, host:port, or tls://host:port; port 0 takes a free one. Empty: no gRPC. Needs "
        "the extra goqueue[grpc].",
        env="GOQUEUE_LISTENERS_GRPC",
        flag="--grpc",
    )
    named: tuple[str, ...] = setting(
        (),
        "Further listeners, each `name=protocol://host:port`. Protocol is kafka, http or grpc, with +tls behind it "
        "for TLS. After a question mark: advertised=host:port, client_certificates=none, optional or required. "
        "Separate several by commas, or write a list.",
    )
    client_certificates: str = setting(
        "none",
        "Whether the listeners `kafka`, `http` and `grpc` ask for client certificates, when they use TLS.",
        choices=("none", "optional", "required"),
    )
    allow_insecure: bool = setting(
        False,
        "Accept listeners beyond loopback without authentication or without TLS: whoever reaches one may read and "
        "write everything, or read what others send.",
    )


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Certificates of the listeners that use TLS. TLS 1.2 is the oldest version."""

    certificate: str = setting("", "File with the certificate of this node and its chain, PEM.")
    key: str = setting("", "File with the private key of the certificate, PEM, not encrypted.")
    client_ca: str = setting("", "File with the authorities that client certificates are checked against, PEM.")
    reload_ms: int = setting(
        1_000,
        "Interval at which the files are checked for changes. New connections use changed files without a restart.",
        minimum=100,
    )
    expiry_warning_days: int = setting(
        30, "The log warns once a day when the certificate expires within so many days.", minimum=0
    )


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """Who clients are and what they may do. Users, keys, roles and rules are stored; see `goqueue security`."""

    enabled: bool = setting(
        False, "Every client must authenticate, and may do only what a rule or a role allows.", flag="--secure"
    )
    super_users: tuple[str, ...] = setting((), "Principals that may do everything, as in User:admin.")
    sasl_mechanisms: tuple[str, ...] = setting(
        ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"),
        "What Kafka clients may authenticate by; with `token_keys`, OAUTHBEARER too.",
    )
    principal_mapping_rules: tuple[str, ...] = setting(
        ("DEFAULT",),
        "How the subject of a client certificate becomes a name: RULE:pattern/replacement/[LU] or DEFAULT, the first "
        "that fits. Separate several by semicolons, or write a list.",
        separator=";",
    )
    token_keys: str = setting("", "File or https URL with the public keys (JWKS) of the issuer of tokens; empty: none.")
    token_issuer: str = setting("", "Issuer that a token must name (iss).")
    token_audience: str = setting("", "Audience that a token must name (aud).")
    token_claim: str = setting("sub", "Claim of a token that is the user's name.")
    token_refresh_ms: int = setting(300_000, "Time after which the keys of the issuer are read again.", minimum=1000)
    reauthentication_ms: int = setting(
        0, "Time after which a Kafka connection must authenticate again; 0: when its credential expires.", minimum=0
    )
    authentication_ms: int = setting(
        10_000, "A Kafka connection that has not authenticated within this time is closed.", minimum=100
    )
    failed_login_ms_max: int = setting(
        5_000,
        "Longest time that the answer to a failed login is held back. It doubles with every failure of an address, "
        "from 100 ms on, and starts again after a minute.",
        minimum=0,
    )
    open_routes: tuple[str, ...] = setting(
        (), "What HTTP answers without credentials besides health: metrics, docs, version."
    )
    audit_file: str = setting("", "File that gets the audit log as JSON lines, besides the topic __audit.")
    audit_data: bool = setting(False, "Audit reads and writes of messages too, not only logins, denials and changes.")
    audit_required: bool = setting(
        False, "Refuse administrative changes that cannot be written to the audit log first."
    )


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """The HTTP API."""

    body_bytes_max: int = setting(16 * MIB, "Largest request body.", minimum=1024)
    body_ms_max: int = setting(30_000, "Longest time that a request's body may take to arrive.", minimum=100)
    first_request_ms: int = setting(
        10_000, "A connection that has sent no request within this time is closed.", minimum=100
    )
    idle_ms: int = setting(75_000, "A kept-alive connection without a request is closed after this.", minimum=1000)
    wait_ms_max: int = setting(60_000, "Longest wait of one long poll.", minimum=0)
    access_log: bool = setting(False, "Log every request with its status, duration and id.")
    cors_origin: str = setting("", "Origin that browsers may call from; empty switches CORS off.")
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "Host names that a request may be for. Addresses, localhost and names of listeners always are. Without names "
        "here, others are refused on loopback only, so that no page in a browser reaches it by a name of its own.",
    )


@dataclass(frozen=True, slots=True)
class GrpcConfig:
    """The gRPC API."""

    reflection: bool = setting(
        False, "Let clients ask for the services and their protos.", env="GOQUEUE_GRPC_REFLECTION"
    )
    message_bytes_max: int = setting(
        16 * MIB, "Largest message that a client may send; a call with a larger one is refused.", minimum=1024
    )
    streams_per_connection_max: int = setting(
        1_000, "Calls and streams that one connection may have open; further ones wait.", minimum=1
    )
    calls_max: int = setting(10_000, "Calls and streams of all connections; one more is refused.", minimum=1)
    keepalive_ms: int = setting(30_000, "Interval of keepalive pings on an idle connection.", minimum=1000)
    keepalive_timeout_ms: int = setting(
        10_000, "A connection that does not answer a keepalive ping within this time is closed.", minimum=100
    )
    client_ping_ms_min: int = setting(10_000, "A client that pings more often than this is disconnected.", minimum=0)
