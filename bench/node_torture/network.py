"""Network namespaces for the torture: each node has one of its own, with one wire to the database.

A node has two wires. One ends in the bridge at which the database is, the other in the bridge at which its
clients and the model are. To cut a node off from the database, its port of the first bridge is disabled: what
is sent is dropped there, in both directions, and nobody is told. Needs root and Debian's iproute2.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

PREFIX = "hf-torture-"
DATABASE, CLIENTS = "d", "c"
NETWORKS = {DATABASE: "10.201.{}", CLIENTS: "10.202.{}"}
HARDWARE = {DATABASE: "02:00:00:00:02:01", CLIENTS: "02:00:00:00:02:02"}
"""The bridges' own addresses: a bridge without one takes another with each wire that is added."""
FIRST_NODE = 10


class NamespacesMissing(Exception):
    """Raised where this machine or this user can't make network namespaces; the text says why."""


def _run(*words: str, check: bool = True) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise NamespacesMissing(f"`{' '.join(words)}` says: {done.stderr.strip()}")
    return done.stdout


class Network:
    """The namespaces and wires of one run. Names and addresses hold the run's process id."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._pid = os.getpid()
        self._third = self._pid % 250 + 1

    def server(self, network: str) -> str:
        """The address at which this process and what it starts are reached by the nodes."""
        return f"{NETWORKS[network].format(self._third)}.1"

    def node(self, number: int, network: str = CLIENTS) -> str:
        """The address of a node."""
        return f"{NETWORKS[network].format(self._third)}.{FIRST_NODE + number}"

    def namespace(self, number: int) -> str:
        return f"{PREFIX}{self._pid}-{number}"

    def enter(self, number: int) -> list[str]:
        """What stands before a command so that it runs there, on a machine with a name of its own.

        The database knows it as HOST:PID, as the process names itself in its leases.
        """
        host = self.host_name(number)
        script = (
            f'hostname {host}; export PGAPPNAME={host}:$$; exec ip netns exec {self.namespace(number)} "$@"'
        )
        return ["unshare", "--uts", "sh", "-c", script, "node"]

    def host_name(self, number: int) -> str:
        return f"node-{number}"

    def cut(self, number: int) -> None:
        """From now on nothing passes between the node and the database."""
        self._set_port(number, "disabled")

    def mend(self, number: int) -> None:
        self._set_port(number, "forwarding")

    def _set_port(self, number: int, state: str) -> None:
        _run("bridge", "link", "set", "dev", self._wire(number, DATABASE), "state", state)

    def _wire(self, number: int, network: str) -> str:
        return f"hf{self._pid}{network}{number}"

    def _bridge(self, network: str) -> str:
        return f"hf{self._pid}{network}"

    def make(self) -> None:
        for network in NETWORKS:
            bridge = self._bridge(network)
            _run(
                "ip", "link", "add", bridge, "address", HARDWARE[network], "type", "bridge", "stp_state", "0"
            )
            _run("ip", "address", "add", f"{self.server(network)}/24", "dev", bridge)
            _run("ip", "link", "set", "dev", bridge, "up")
        for number in range(self._nodes):
            space = self.namespace(number)
            _run("ip", "netns", "add", space)
            _run("ip", "-n", space, "link", "set", "lo", "up")
            for network in NETWORKS:
                self._connect(number, network)

    def _connect(self, number: int, network: str) -> None:
        space, wire, bridge = self.namespace(number), self._wire(number, network), self._bridge(network)
        _run("ip", "link", "add", wire, "type", "veth", "peer", "name", network, "netns", space)
        _run("ip", "link", "set", "dev", wire, "master", bridge, "up")
        address = self.node(number, network)
        _run("ip", "-n", space, "address", "add", f"{address}/24", "dev", network)
        _run("ip", "-n", space, "link", "set", "dev", network, "up")
        # A wire that is cut must be silent: without these, either side would soon say "no route to host".
        known = "neighbour", "replace", "nud", "permanent"
        theirs = _run("ip", "-n", space, "-br", "link", "show", "dev", network).split()[2]
        for words in (
            ("-n", space, *known, self.server(network), "lladdr", HARDWARE[network], "dev", network),
            (*known, address, "lladdr", theirs, "dev", bridge),
        ):
            _run("ip", *words)

    def remove(self) -> None:
        for number in range(self._nodes):
            _run("ip", "netns", "delete", self.namespace(number), check=False)
            for network in NETWORKS:
                _run("ip", "link", "delete", self._wire(number, network), check=False)
        for network in NETWORKS:
            _run("ip", "link", "delete", self._bridge(network), check=False)


def why_not() -> str:
    """Why this machine can't have the torture; empty when it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing := [name for name in ("ip", "bridge", "unshare") if shutil.which(name) is None]:
        return f"{', '.join(missing)} missing (Debian: iproute2, util-linux)"
    probe = Network(1)
    try:
        probe.make()
        probe.cut(0)
        _run(*probe.enter(0), "true")
    except NamespacesMissing as problem:
        return str(problem)
    finally:
        probe.remove()
    return ""


@contextmanager
def network(nodes: int) -> Iterator[Network]:
    """Namespaces that are there while the block runs."""
    made = Network(nodes)
    try:
        made.make()
        yield made
    finally:
        made.remove()
