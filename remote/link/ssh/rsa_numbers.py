"""Build private RSA keys without a test of their primes.

For primes of 8,192 bits, this test takes more than a minute, in which Ctrl-C has no effect. OpenSSH does not test them
either. All other relations of the numbers are checked, so that OpenSSL computes only with numbers of a usual form.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from cryptography.hazmat.primitives.asymmetric import rsa

MAX_EXPONENT_BITS = 256
"""The limit of FIPS 186 for public exponents."""
PKCS1_NUMBERS = 9
MIN_BITS = 1024
"""The limit of OpenSSH. A signature does not fit into a key of fewer bits than its digest."""


def key_of_openssh(numbers: Sequence[int]) -> rsa.RSAPrivateKey:
    """Return the key with the numbers `n e d iqmp p q`. Raises ValueError if they are not of one key."""
    n, e, d, iqmp, p, q = numbers
    return _key(n, e, d, p, q, iqmp)


def key_of_pkcs1(numbers: Sequence[int]) -> rsa.RSAPrivateKey:
    """Return the key with the numbers `version n e d p q dmp1 dmq1 iqmp`. Raises ValueError as `key_of_openssh`."""
    if len(numbers) != PKCS1_NUMBERS or numbers[0] != 0:
        raise ValueError("not the numbers of an RSA key with two primes")
    _, n, e, d, p, q, dmp1, dmq1, iqmp = numbers
    key = _key(n, e, d, p, q, iqmp)
    if (dmp1, dmq1) != (d % (p - 1), d % (q - 1)):
        raise ValueError("the exponents of the primes do not fit the key")
    return key


def _key(n: int, e: int, d: int, p: int, q: int, iqmp: int) -> rsa.RSAPrivateKey:
    fits = (
        min(p, q, e) > 2
        and n.bit_length() >= MIN_BITS
        and p != q
        and all(number % 2 for number in (p, q, e))
        and p * q == n
        and e.bit_length() <= MAX_EXPONENT_BITS
        and 0 < d < n
        and e * d % lcm(p - 1, q - 1) == 1
        and 0 < iqmp < p
        and iqmp * q % p == 1
    )
    if not fits:
        raise ValueError("the numbers are not of one RSA key")
    public = rsa.RSAPublicNumbers(e, n)
    numbers = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), iqmp, public)
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)
