"""Where a server listens: loopback, unless it was told otherwise on purpose."""

import ipaddress
from typing import NamedTuple

from ottla.errors import InvalidValue

_MOST_PORTS = 65_535


class Address(NamedTuple):
    """A host and a port to listen on; port 0 picks a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(value: str, what: str = "address") -> Address:
    """An address from `host:port`, `[::1]:port` or `:port`, which is on loopback."""
    rule = "write it as host:port, as in 127.0.0.1:9999 (port 0 picks a free one)"
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > _MOST_PORTS:
        raise InvalidValue(what, value, rule)
    if host.startswith("[") != host.endswith("]") or (":" in host and not host.startswith("[")) or "/" in host:
        raise InvalidValue(what, value, rule)
    return Address(host.strip("[]") or "127.0.0.1", int(port))


def check_exposed(address: Address, *, insecure: bool) -> None:
    """Refuse an address that others can reach, unless that is what is wanted."""
    if not address.is_loopback and not insecure:
        rule = (
            "others could reach it, and there is no encryption and no authentication yet: "
            "listen on 127.0.0.1 behind something that has both, or say --insecure (insecure=True)"
        )
        raise InvalidValue("address", str(address), rule)
