"""Where a PostgreSQL store is: its address taken apart, and the parts that may be shown."""

from dataclasses import dataclass, field

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.core.errors import InvalidInput

# A server that vanishes without a word is noticed in half a minute; the system's own defaults take hours.
VIGILANCE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}


@dataclass(frozen=True)
class Address:
    """An address without its password, and the whole of it for the driver alone."""

    location: str
    """For people: user, host, port and database."""
    pg_dump: str
    """The command that makes a backup."""
    conninfo: str = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> "Address":
        try:
            parts = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # The driver quotes what it can't parse, and that may be the password.
            raise InvalidInput(
                "a PostgreSQL address is postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                "with special characters in it written as %XX; this one can't be read"
            ) from None
        shown = {key: str(parts[key]) for key in ("user", "host", "port", "dbname") if parts.get(key)}
        user = f"{shown['user']}@" if "user" in shown else ""
        servers = _servers(shown.get("host", ""), shown.get("port", ""))
        location = f"postgresql://{user}{servers}/{shown.get('dbname', '')}"
        flags = {"host": "--host", "port": "--port", "user": "--username", "dbname": "--dbname"}
        options = " ".join(f"{flags[key]}={value}" for key, value in sorted(shown.items()))
        vigilance = {key: value for key, value in VIGILANCE.items() if key not in parts}
        conninfo = make_conninfo(url, **vigilance)
        return cls(location, f"pg_dump {options} --format=custom", conninfo)


def _servers(hosts: str, ports: str) -> str:
    """Each host with its port, as an address names them; one port may be that of all hosts."""
    names, numbers = hosts.split(","), ports.split(",")
    if len(numbers) == 1:
        numbers *= len(names)
    return ",".join(
        f"{name}:{number}" if number else name for name, number in zip(names, numbers, strict=False)
    )
