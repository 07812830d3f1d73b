"""Settings of a cluster: its nodes, and where they keep their metadata."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.config.declaring import MIB, setting


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Several nodes as one broker. A node on its own leaves all of this as it is."""

    peers: tuple[str, ...] = setting(
        (),
        "Every node of the cluster, this one included, each `id=host:port` with the address for traffic between nodes. "
        "Separate several by commas, or write a list. Empty: this node is on its own.",
    )
    listen: str = setting(
        "",
        "Address that other nodes connect to, host:port; port 0 takes a free one. Empty: that of this node in `peers`.",
    )
    advertised: str = setting(
        "", "Address that other nodes are told to connect to, host:port. Empty: that of this node in `peers`."
    )
    secret_file: str = setting(
        "",
        "File with the secret by which nodes authenticate each other, 16 characters at least. Each line is one that is "
        "accepted; the first is the one that is used. Only its owner may read it.",
    )
    tls: str = setting(
        "off",
        "TLS between nodes, with certificates on both sides. required: nothing else. optional: connections without it "
        "are accepted too, and made to nodes that do not use it yet, while a cluster is switched over. off: none.",
        choices=("off", "optional", "required"),
    )
    tls_ca: str = setting("", "File with the authorities that certificates of other nodes are checked against, PEM.")
    tls_certificate: str = setting(
        "", "File with the certificate that this node shows to other nodes, and its chain, PEM."
    )
    tls_key: str = setting("", "File with the private key of that certificate, PEM, not encrypted.")
    allow_insecure: bool = setting(
        False,
        "Accept traffic between nodes, and with an etcd that this node runs, beyond loopback without TLS: whoever "
        "listens on the network reads what is replicated, and whoever reaches such an etcd can change everything.",
    )
    rack: str = setting("", "Rack of this node: replicas of a partition are spread over racks.")
    replication_factor: int = setting(
        0,
        "Default replication factor of topics in a cluster. 0: three, or the number of nodes if that is fewer.",
        minimum=0,
    )
    min_insync_replicas: int = setting(
        0,
        "Default of min.insync.replicas: replicas that must have a record "
        "before acks=all is answered. 0: two, or one for "
        "topics with one replica. A topic's min.insync.replicas decides for itself.",
        minimum=0,
    )
    session_ms: int = setting(
        6_000,
        "A node that has not renewed its session for this long is replaced as leader.",
        minimum=1_000,
        maximum=60_000,
    )
    replica_lag_ms_max: int = setting(
        10_000,
        "A replica that has lagged behind its leader for this long leaves the in-sync replicas.",
        minimum=100,
    )
    verify_bytes_per_s_max: int = setting(
        1024 * 1024,
        "Bytes per second that a node reads of its own logs, all the time, so that damage is found and repaired from "
        "other replicas before it is needed. 0: nothing is read.",
        minimum=0,
    )
    catch_up_bytes_per_s_max: int = setting(
        64 * MIB,
        "Bytes per second that a leader sends to one node for all partitions in which that node is not in sync.",
        minimum=1024,
    )
    leader_return_ms: int = setting(
        10_000,
        "Time without a change of nodes or leaders after which partitions go back to their preferred "
        "leader, the first replica. -1: never by themselves.",
        minimum=-1,
    )
    metadata_level_max: int = setting(
        -1,
        "Highest level of `metadata.version` that this node agrees to, so that the version before can be started again "
        "during a rolling upgrade. A level is raised when all "
        "nodes agree, and is never lowered. -1: all that it knows.",
        minimum=-1,
    )


@dataclass(frozen=True, slots=True)
class MetadataConfig:
    """Where topics, assignments and settings are stored: in the data directory, or in etcd, which a cluster shares."""

    mode: str = setting(
        "embedded",
        "embedded: in the data directory, for a node on its own. managed: in an etcd that this node starts and stops "
        "with itself, or in those of the voters. external: in an etcd that is run elsewhere.",
        choices=("embedded", "managed", "external"),
    )
    endpoints: tuple[str, ...] = setting(
        (),
        "URLs of the etcd servers, as in http://10.0.0.1:2379, for `external`, and for nodes of `managed` that are not "
        "among the voters.",
    )
    prefix: str = setting(
        "/goqueue", "What all keys of this cluster begin with. Clusters that share an etcd differ in it."
    )
    username: str = setting("", "User of the external etcd; empty: none.")
    password_file: str = setting("", "File with the password of that user.")
    tls_ca: str = setting("", "File with the authorities that etcd's certificate is checked against, PEM.")
    tls_certificate: str = setting("", "File with the certificate that this node shows to etcd, PEM.")
    tls_key: str = setting("", "File with the private key of that certificate, PEM.")
    voters: tuple[str, ...] = setting(
        (),
        "Nodes that run an etcd in the mode `managed`, each `id=URL` with the URL for traffic between them; one or "
        "three. Written by `goqueue cluster init`.",
    )
    listen: str = setting(
        "http://127.0.0.1:2379", "URL on which the etcd of this node takes clients, in the mode `managed`."
    )
    dir: str = setting(
        "", "Directory of the etcd of this node, perhaps on another disk; empty: `etcd` in the data directory."
    )
    token: str = setting(
        "", "Token of the etcd cluster that `goqueue cluster init` founded; it keeps clusters apart from each other."
    )
    cluster_id: str = setting(
        "",
        "Id of the cluster that this node belongs to: it waits until the metadata store has it. Empty: the first node "
        "gives the cluster its id.",
    )
    import_file: str = setting(
        "",
        "File with the metadata of a node on its own that `goqueue cluster init --from` took over. The first start "
        "imports and removes it.",
    )
    founding_file: str = setting(
        "",
        "File that `goqueue cluster init` writes and the first start of this node's etcd removes: with it, an empty "
        "directory founds a cluster. Without it, an empty directory is a lost one, and etcd joins the others again.",
    )
    quota_bytes: int = setting(
        2048 * MIB,
        "Size of etcd's database above which it refuses changes and raises an alarm.",
        minimum=64 * MIB,
    )
