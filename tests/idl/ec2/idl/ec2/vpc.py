"""Virtual networks."""

from holdfast import idl


class Vpc(idl.NamedResource, poll=60):
    """A virtual network of its own."""

    cidr_block: str = idl.field(replaces=True, pattern=r"[0-9.]+/[0-9]{1,2}")
    """Range of addresses: `10.0.0.0/16`."""
    vpc_id: str = idl.field(out=True)
    """Identifier that the cloud has given to the network."""
