"""Who a client is: by the address of its connection, or as a trusted proxy forwards it."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from multidomain.errors import ConfigError
from multidomain.serve.errors import too_busy

_LONGEST_NAME = 100  # of a forwarded client that is no address
_NETWORK_BITS = 64  # what one IPv6 customer has to itself


def client_of(address: str) -> str:
    """Return the client behind an address: the address itself, or the /64 network of an IPv6 address.

    Examples
    --------
    >>> client_of("10.0.0.1"), client_of("::ffff:10.0.0.1"), client_of("2001:db8::5:1")
    ('10.0.0.1', '10.0.0.1', '2001:db8::/64')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:_LONGEST_NAME]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _NETWORK_BITS), strict=False)) if not parsed.is_loopback else str(parsed)


def trusted_proxies(addresses: Collection[str]) -> frozenset[str]:
    """Return the addresses of proxies, or refuse what is no address."""
    for address in addresses:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise ConfigError(f"'{address}' is not the address of a proxy. Give one such as 10.0.0.1.") from None
    return frozenset(map(_normal, addresses))


class ForwardedClients:
    """Limits the concurrent requests of each client that is behind a trusted proxy.

    The connections are the proxy's own, and their number says nothing about a client.

    Parameters
    ----------
    most
        Concurrent requests of one client.
    proxies
        Whose header ``X-Forwarded-For`` is believed; see `trusted_proxies`.
    """

    def __init__(self, app: ASGIApp, most: int, proxies: Collection[str]) -> None:
        self._app = app
        self._most = most
        self._proxies = frozenset(proxies)
        self._requests: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = self._forwarded(scope) if scope["type"] == "http" else None
        if client is None:
            await self._app(scope, receive, send)
            return
        if self._requests[client] >= self._most:
            error = too_busy(f"{self._most} requests of your address are in progress.")
            await error.response()(scope, receive, send)
            return
        self._requests[client] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._requests[client] -= 1
            if not self._requests[client]:
                del self._requests[client]

    def _forwarded(self, scope: Scope) -> str | None:
        """Return the client that a trusted proxy names, None if there is none."""
        if not scope["client"] or not is_proxy(scope["client"][0], self._proxies):
            return None
        values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        # Each proxy appends the address that it saw. What stands before the last untrusted one, a client can make up.
        for address in reversed(",".join(values).split(",")):
            name = address.strip()
            if name and not is_proxy(name, self._proxies):
                return client_of(name)
        return None


def is_proxy(address: str, proxies: Collection[str]) -> bool:
    """Tell whether an address is one of the trusted proxies'."""
    return _normal(address) in proxies


def _normal(address: str) -> str:
    """Return an address in its shortest form, IPv4 also where it is mapped into IPv6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
