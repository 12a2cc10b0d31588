"""Texts of the store and the rendezvous by which ranks find each other before any collective operation. Pure.

Sources: torch 1.8 to 2.13, torch/csrc/distributed/c10d/TCPStore.cpp ("wait timeout after", with the keys since 2.4; "Socket
Timeout" until 2.3; "Ping failed" since 2.3), Utils.hpp ("failed to recv, got 0 bytes" since 2.5; "Connection reset by peer"
before), socket.cpp (gai errors), ProcessGroupNCCL.cpp ("is setting up NCCL communicator"); torch/distributed/
distributed_c10d.py (_store_based_barrier: worker_count until 2.1, num_workers_joined since); torch/distributed/elastic/
rendezvous (dynamic_rendezvous.py, c10d_rendezvous_backend.py); gloo/transport/tcp/device.cc.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, cascade, failure, hint

_WAITED = "# read the log of rank {other} first: it ended before, or does something that takes longer than the others wait\n"
_LONGER = "dist.init_process_group(..., timeout=timedelta(minutes=30))  # if only rank 0 should download or tokenize"
_READ_FIRST = "# read the log of the rank that failed first"
_ALL_CAME = "All ranks were started, and each reached that call within the time."

PATTERNS: tuple[Pattern, ...] = (
    failure(
        "store_timeout",
        "G03",
        "ncclUniqueId from [",
        r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(?P<other>\d+)\].{0,400}?"
        r"got error: (?P<why>(?:[Ww]ait timeout|[Ss]ocket [Tt]imeout|.{0,400}?timed? ?out)[^\n]*)",
        "Rank {other} did not reach the first collective operation that rank {rank} entered",
        "NCCL is set up at the first collective of a group: rank {rank} waited for rank {other}, which was still busy with "
        "something else (loading, downloading, tokenizing), or had ended.",
        f"{_WAITED}{_LONGER}",
        confidence="likely",
        refuted_by="Rank {other} had entered a collective of the same group by then.",
    ),
    cascade(
        "store_lost",
        "G04",
        "ncclUniqueId from [",
        r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(?P<other>\d+)\].{0,400}?"
        r"got error: (?P<why>(?![^\n]{0,400}(?:[Tt]imeout|[Tt]imed? ?out))[^\n]+)",
        "Rank {other} was gone when rank {rank} wanted to set up NCCL",
        "The store of rank {other} no longer answers: its process has ended.",
        "# read the log of rank {other}",
    ),
    failure(
        "rdzv_timeout",
        "G03",
        "in store based",
        r"Timed out initializing process group in store based ?barrier on rank:? (?P<rank>\d+),"
        r".{0,400}?\(world_size=(?P<world>\d+), "
        r"(?:worker_count|num_workers_joined)=(?P<joined>\d+)",
        "{joined} of {world} ranks reached init_process_group or new_group in time",
        "Fewer than the world size: the others were not started, have ended, or run other code. More: the store still "
        "counts ranks of an earlier start.",
        "# every rank must create every group: dist.new_group(ranks) belongs outside any `if rank in ranks`\n"
        "torchrun --standalone --nproc-per-node=gpu train.py",
        refuted_by=_ALL_CAME,
    ),
    *(
        failure(
            "store_timeout",
            "G03",
            key,
            expression,
            title,
            "Before any collective, the ranks communicate through the store of rank 0. One of them was not started, has "
            "ended, or is slower than the time limit.",
            "# read the logs of the other ranks; start as many as the world size says: torchrun --nnodes, --nproc-per-node\n"
            f"{_LONGER}",
            confidence="likely",
            refuted_by=_ALL_CAME,
        )
        for key, expression, title in (
            (
                "ait timeout after",
                r"(?:Error|Exception)\b.{0,400}?wait timeout after (?P<ms>\d+)ms, keys: (?P<keys>[^\n]+)",
                "A rank waited {ms} ms for keys that another rank must write: {keys}",
            ),
            (
                "ocket Timeout",
                r"(?:RuntimeError|DistStoreError|DistNetworkError|TimeoutError): (?:Socket Timeout|socketTimeout)\b",
                "A rank waited at the store for another one until the time limit",
            ),
        )
    ),
    failure(
        "store_other_program",
        "G03",
        "Ping failed, invalid value returned",
        r"(?:host (?P<host>\S{1,200}?):(?P<port>\d+).{0,200}?)?Ping failed, invalid value returned from server",
        "A program other than torch's store answers at MASTER_ADDR and port {port}",
        "Another program listens on the ranks' port: a web server, another launcher, or another library's store.",
        "ss -ltnp  # on the first host: who listens on that port\n"
        "torchrun --nnodes=2 --node-rank=0 --master-addr=HOST --master-port=29511 train.py  # another port, the same on all",
        confidence="likely",
        refuted_by="ss -ltnp shows rank 0 of this run as the listener.",
    ),
    failure(
        "rdzv_address",
        "G03",
        "(gai error",
        r"^(?!.*\[W).*network addresses of \((?P<host>[^,]{0,200}), ?(?P<port>\d+)\) cannot be retrieved "
        r"\(gai error: (?P<code>-?\d+)(?: - (?P<why>[^)]+))?",
        "The name {host} has no address: {why}",
        "MASTER_ADDR or --rdzv-endpoint names a host that this one cannot resolve; with --standalone, it is the host's own "
        "name, which is missing from /etc/hosts.",
        "getent hosts {host}  # nothing: add it to /etc/hosts, or pass an address\n"
        "torchrun --master-addr=127.0.0.1 --nproc-per-node=gpu train.py  # on one host",
        refuted_by="getent hosts {host} prints an address on the same host and in the same container.",
    ),
    failure(
        "rdzv_address",
        "G03",
        "(gai error",
        # IPv4 comes last: after it torch has no address at all, and tries again until its time limit.
        r"\[W.{0,200}IPv4 network addresses of \((?P<host>[^,]{0,200}), ?(?P<port>\d+)\) cannot be retrieved "
        r"\(gai error: (?P<code>-?\d+)(?: - (?P<why>[^)]+))?",
        "The name {host} has no address: {why}",
        "MASTER_ADDR or --rdzv-endpoint names a host that this one cannot resolve: a typo, a name of another network, or a "
        "name server that does not know it yet.",
        "getent hosts {host}  # nothing: pass an address, or a name that every node resolves",
        refuted_by="getent hosts {host} prints an address on the same host and in the same container.",
    ),
    hint(
        "rdzv_address",
        "G03",
        "(gai error",
        # torch tries IPv6 first, and warns of it on machines that have none: alone it means nothing.
        r"\[W.{0,200}network addresses of \((?P<host>[^,]{0,200}), ?(?P<port>\d+)\) cannot be retrieved "
        r"\(gai error: (?P<code>-?\d+)"
        r"(?: - (?P<why>[^)]+))?",
        "The name {host} has no address of one kind: {why}",
        "Harmless if the ranks then meet over IPv4. Otherwise, MASTER_ADDR or --rdzv-endpoint names a host that this one "
        "cannot resolve.",
        "getent hosts {host}  # nothing: add it to /etc/hosts, or pass an address",
        severity="info",
        confidence="possible",
    ),
    failure(
        "rdzv_address",
        "G03",
        "Name or service not known",
        r"(?:socket\.gaierror|getaddrinfo|(?:Error|Exception)\b.{0,400}gai error).{0,400}?(?P<why>Name or service not known)",
        "The name of the first host has no address",
        "MASTER_ADDR or --rdzv-endpoint names a host that this one cannot resolve.",
        "getent hosts $MASTER_ADDR  # nothing: add it to /etc/hosts, or pass an address",
        confidence="likely",
        refuted_by="getent hosts prints an address for it on the same host and in the same container.",
    ),
    failure(
        "rdzv_closed",
        "G03",
        "RendezvousClosedError",
        r"\bRendezvousClosedError\b",
        "The rendezvous is closed: this node joined after the job had ended for the others",
        "Another node with the same --rdzv-id has finished or failed for good, or the id of an earlier job was reused.",
        "# read the log of the node that ended first\n"
        "torchrun --nnodes=2 --nproc-per-node=gpu --rdzv-id=$RANDOM --rdzv-backend=c10d --rdzv-endpoint=HOST:29500 train.py\n"
        "# one new id for each start, the same on all nodes",
        confidence="likely",
        refuted_by="No node with this rendezvous id had ended before, in this job or an earlier one.",
    ),
    failure(
        "rdzv_connection",
        "G03",
        "RendezvousConnectionError",
        r"\bRendezvousConnectionError\b",
        "This node cannot reach the rendezvous, or lost it",
        "At the start: nothing listens at --rdzv-endpoint, or a firewall blocks it. Later: the node that held the store has "
        "ended, and its log has the cause.",
        "nc -zv HOST 29500  # HOST and port of --rdzv-endpoint, from this node\n"
        "# the node with the endpoint starts as well, and keeps running until the others have ended",
        confidence="likely",
        refuted_by="The endpoint's node was running, and nc -zv reached it at that time.",
        vague=True,
    ),
    cascade(
        "store_lost",
        "G04",
        "ailed to recv, got 0 bytes",
        r"[Ff]ailed to recv, got 0 bytes",
        "The store of rank 0 closed its connection",
        "The process that held the store ended; whatever ended it is the cause.",
        _READ_FIRST,
    ),
    cascade(
        "store_lost",
        "G04",
        '"should dump" flag',
        r'Failed to check the "should dump" flag on TCPStore',
        "The store of rank 0 is gone",
        "The process that held the store ended while this rank's watchdog was reading from it; whatever ended it is the cause.",
        _READ_FIRST,
    ),
    *(
        cascade(
            "store_lost",
            "G04",
            key,
            expression,
            "The store of rank 0 closed its connection",
            "The process that held the store ended; whatever ended it is the cause.",
            _READ_FIRST,
        )
        for key, expression in (
            (" failed on SocketImpl(", r"(?:sendBytes|recvValue\w{0,40}|recvVector) failed on SocketImpl\("),
            # The whole message of an exception, as c10d raises it.
            ("Broken pipe", r"(?:RuntimeError|Dist\w{1,40}Error): Broken pipe\s*$"),
            ("Connection reset by peer", r"(?:RuntimeError|Dist\w{1,40}Error): Connection reset by peer\s*$"),
        )
    ),
    failure(
        "gloo_interface",
        None,
        "Unable to find address for",
        r"Unable to find address for:? ?(?P<name>[\w.@:-]{1,40})",
        "gloo finds no address of the network interface {name}",
        "GLOO_SOCKET_IFNAME names an interface that this host does not have, or that has no address. The names differ between "
        "hosts.",
        "ip -br address  # the interfaces of this host\nunset GLOO_SOCKET_IFNAME  # or set it to one that all hosts have",
        refuted_by="ip -br address lists {name} with an address, on the host that failed.",
    ),
)
