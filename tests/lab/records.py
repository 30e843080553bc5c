"""Records of event files, as TensorBoard writes them."""

from remote.protocol.crc32c import masked_crc32c
from remote.protocol.records import FOOTER, LENGTH


def pack_record(data: bytes) -> bytes:
    """Encode one record."""
    length = LENGTH.pack(len(data))
    return length + FOOTER.pack(masked_crc32c(length)) + data + FOOTER.pack(masked_crc32c(data))
