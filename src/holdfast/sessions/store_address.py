"""A store's address: `sqlite:///PATH` or `postgresql://HOST/DATABASE`."""

from importlib import import_module

from holdfast.core.distribution import install_command
from holdfast.core.errors import InvalidInput, StoreUnopenable

POSTGRES_DRIVER = ("psycopg", "psycopg_pool")


def sqlite_path(url: str) -> str | None:
    """The path in `sqlite:///path` (four slashes for an absolute one); None for any other address."""
    scheme, _, rest = url.partition("://")
    return rest[1:] if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1 else None


def unknown_address(url: str) -> InvalidInput:
    """What is wrong with an address that is of neither kind."""
    scheme, separator, rest = url.partition("://")
    # Of another address only the scheme is repeated: the rest may hold a password.
    given = scheme + separator if separator else url
    path = rest if separator else url
    meant = f": write sqlite:///{path}" if path.strip("/") and scheme in ("sqlite", url) else ""
    return InvalidInput(
        f"a store's address is sqlite:///PATH or postgresql://HOST/DATABASE, not {given!r}{meant}"
    )


def require_driver() -> None:
    """Raise, with what to install, where the driver for PostgreSQL is missing."""
    try:
        for module in POSTGRES_DRIVER:
            import_module(module)
    except ImportError as cause:
        raise StoreUnopenable(
            "the PostgreSQL store",
            f"its driver is not installed. Install it with: {install_command('postgres')}",
        ) from cause
