"""How a long listing comes from a controller: packed, since a script's output is bounded on the node."""

import base64
import binascii
import zlib

from service.domain.errors import SourceSilent

#: The end of a pipe on the controller.
WRAP = "gzip -9c | base64 -w0"
#: A listing of more is refused before it fills the memory.
MOST_BYTES = 256 * 1024 * 1024
_GZIP = 31  # window bits of zlib for a gzip header


def unwrap(output: bytes) -> bytes:
    """Return the listing; SourceSilent when it did not come whole."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        text = unpacker.decompress(base64.b64decode(output.strip(), validate=True), MOST_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise SourceSilent(
            f"The listing did not arrive whole ({error}).",
            "It is asked again by itself; `unstick nodes` says when it has answered.",
        ) from error
    if not unpacker.eof:
        raise SourceSilent("The listing is cut, or larger than is read.", "Narrow it with `selector`.")
    return text
