"""A server whose key exchange has numbers of absurd sizes: the connection ends before paramiko computes with them."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from paramiko.message import Message

from remote.errors import CannotConnect
from remote.link.address import Address
from remote.link.ssh.key_exchange_sizes import MAX_MESSAGE, judge_key_exchange
from remote.link.ssh.starter import SshStarter

GROUP_EXCHANGE = "diffie-hellman-group-exchange-sha256"
FIXED_GROUP = "diffie-hellman-group14-sha256"
KEXINIT, DH_REPLY, GEX_GROUP = 20, 31, 31
STRANGE_KEY_BITS = 1_000_000
"""paramiko converts such a number within a few seconds, so that the test ends without the check too."""


def numbers(*values: int) -> bytes:
    built = Message()
    for value in values:
        built.add_mpint(value)
    return bytes(built.asbytes())


def strings(*values: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(value)) + value for value in values)


def rsa_reply(bits: int) -> bytes:
    """Return the reply of a Diffie-Hellman exchange with an RSA host key of this size."""
    modulus = b"\0" + b"\xff" * (bits // 8)
    return strings(strings(b"ssh-rsa", b"\1\0\1", modulus), b"\5", strings(b"rsa-sha2-256", bytes(256)))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (DH_REPLY, rsa_reply(16_384)),
        (GEX_GROUP, numbers(2**8191 + 1, 2)),
        (33, rsa_reply(16_384)),
        (KEXINIT, bytes(100_000)),
        (94, bytes(200_000)),
        (DH_REPLY, b""),
    ],
)
def test_a_usual_key_exchange_is_accepted(kind: int, body: bytes) -> None:
    assert judge_key_exchange(kind, body) == ""


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (DH_REPLY, rsa_reply(200_000), "a key exchange of 25"),
        (33, rsa_reply(4_000_000), "a key exchange of 500"),
        (GEX_GROUP, numbers(2**200_000, 2), "a key exchange of 25"),
        (GEX_GROUP, numbers(-(2**2047) - 1, 2), "a negative prime"),
    ],
)
def test_SE_09_a_key_exchange_with_numbers_of_absurd_sizes_is_refused(kind: int, body: bytes, expected: str) -> None:
    assert expected in judge_key_exchange(kind, body)


def test_SE_09_a_host_key_of_a_million_bits_ends_the_connection() -> None:
    with exchanging(FIXED_GROUP, bytes([DH_REPLY]) + rsa_reply(STRANGE_KEY_BITS)) as address:
        assert f"expected at most {MAX_MESSAGE}" in refused(address)


def test_SE_09_a_group_with_a_negative_prime_ends_the_connection() -> None:
    """paramiko searched for an exponent below the prime in an endless loop."""
    with exchanging(GROUP_EXCHANGE, bytes([GEX_GROUP]) + numbers(-(2**2047) - 1, 2)) as address:
        assert "negative prime" in refused(address)


def refused(address: Address) -> str:
    starter = SshStarter(address)
    with pytest.raises(CannotConnect) as caught:
        starter.start(["true"])
    starter.close()
    return caught.value.message


def packet(payload: bytes) -> bytes:
    """Return an unencrypted packet (RFC 4253, section 6)."""
    padding = 8 - (len(payload) + 5) % 8 + 8
    return struct.pack(">IB", len(payload) + padding + 1, padding) + payload + bytes(padding)


def key_exchange_init(algorithm: str) -> bytes:
    lists = [algorithm, "rsa-sha2-256", *["aes128-ctr"] * 2, *["hmac-sha2-256"] * 2, *["none"] * 2, "", ""]
    return bytes([KEXINIT]) + bytes(16) + strings(*(names.encode() for names in lists)) + bytes(5)


@contextlib.contextmanager
def exchanging(algorithm: str, reply: bytes) -> Iterator[Address]:
    """Yield the address of a server that answers the first message of each key exchange with `reply`."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                with listener.accept()[0] as connection, connection.makefile("rb") as received:
                    connection.sendall(b"SSH-2.0-strange\r\n" + packet(key_exchange_init(algorithm)))
                    received.readline()
                    for _ in range(2):  # the list of algorithms, and the first message of the exchange
                        received.read(struct.unpack(">I", received.read(4))[0])
                    connection.sendall(packet(reply))
                    received.read()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield Address("strange", "127.0.0.1", port=listener.getsockname()[1], user="someone", workdir="/tmp/strange")
    finally:
        listener.close()
