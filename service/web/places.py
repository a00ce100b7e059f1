"""What counts as one place from which somebody asks, whatever address he has taken there."""

from ipaddress import IPv6Address, ip_address
from typing import Final

_LONGEST: Final = 64


def place_of(address: str) -> str:
    """Return what counts as one: an IPv4 address, or of IPv6 the network that one customer is given.

    That is a /64 at least (RFC 6177). An IPv4 address that is written as one of IPv6 (`::ffff:192.0.2.1`, RFC 4291,
    2.5.5.2) is the address itself: all of IPv4 would be one network otherwise.
    """
    try:
        known = ip_address(address)
    except ValueError:
        return address[:_LONGEST]
    if not isinstance(known, IPv6Address):
        return str(known)
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    # Loopback is no network of a customer.
    return str(known) if known.is_loopback else f"{IPv6Address(int(known) >> 64 << 64)}/64"
