"""`LookupTransport`: httpx's own transport, with names looked up by `NameLookup`.

The program's own loops use `NameLookup` anyway (`event_loop.py`). This transport is for programs that use
Holdfast as a library: on their loops a lookup that hangs would block the default executor.
"""

import asyncio
from urllib.request import getproxies

import httpx2

from holdfast.core.server_url import is_address
from holdfast.process.name_lookup import NameLookup


class LookupTransport(httpx2.AsyncBaseTransport):
    """Tries the addresses of a name one after the other. Certificates are checked for the name."""

    def __init__(self, names: NameLookup | None = None, *, verify: bool = True) -> None:
        self._names = names or NameLookup()
        self._verify = verify
        # One for each host: httpx keeps connections by address, but a checked certificate belongs to a name.
        self._of_hosts: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        transport = self._of_hosts.get(url.host)
        if transport is None:
            transport = self._of_hosts[url.host] = httpx2.AsyncHTTPTransport(verify=self._verify)
        if is_address(url.host):
            return await transport.handle_async_request(request)
        failure: httpx2.TransportError = httpx2.ConnectError(f"{url.host} has no address")
        for address in await self._addresses(request):
            try:
                return await transport.handle_async_request(_to_address(request, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as cause:
                failure = cause
        raise failure

    async def aclose(self) -> None:
        for transport in self._of_hosts.values():
            await transport.aclose()

    async def _addresses(self, request: httpx2.Request) -> list[str]:
        url = request.url
        seconds: float | None = request.extensions.get("timeout", {}).get("connect")
        try:
            async with asyncio.timeout(seconds):
                return await self._names.addresses(url.raw_host.decode("ascii"), url.port or 443)
        except TimeoutError as cause:
            raise httpx2.ConnectTimeout(f"the address of {url.host} did not come in time") from cause
        except (OSError, UnicodeError) as cause:
            raise httpx2.ConnectError(str(cause)) from cause


def _to_address(request: httpx2.Request, address: str) -> httpx2.Request:
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={"sni_hostname": request.url.raw_host.decode("ascii"), **request.extensions},
    )


def direct_transport(*, verify: bool = True, proxies: bool = True) -> LookupTransport | None:
    """The transport for a client.

    None means httpx's own, which is needed when the environment names a proxy.
    """
    # `no_proxy` alone names hosts that are reached without one.
    is_proxied = proxies and getproxies().keys() - {"no"}
    return None if is_proxied else LookupTransport(verify=verify)
