"""Refuse messages of a key exchange with numbers that paramiko would compute with for minutes, or for ever."""

from __future__ import annotations

KEY_EXCHANGE = range(30, 50)
"""The messages that each method of key exchange defines (RFC 4250, 4.1.2)."""
MAX_MESSAGE = 16 * 1024
"""A host key and a signature of RSA with 16,384 bits, and the number of a Diffie-Hellman group, have 8 KiB together."""
GROUP = 31


def judge_key_exchange(kind: int, body: bytes) -> str:
    """Return why the message is refused, or "" if it is not one of a key exchange, or if its numbers are usable."""
    if kind not in KEY_EXCHANGE:
        return ""
    if len(body) > MAX_MESSAGE:
        return f"the server sent a key exchange of {len(body)} bytes, expected at most {MAX_MESSAGE}"
    # The first number of a group is its prime (RFC 4419, 3). With a negative one, paramiko never finds an exponent.
    # In the other messages of this kind, the host key is first, which begins with the length of its type.
    if kind == GROUP and body[4:5] >= b"\x80":
        return "the server sent a key exchange with a negative prime"
    return ""
