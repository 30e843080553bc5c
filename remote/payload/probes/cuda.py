"""Compute capability by card, asked of the driver's own library: for drivers whose nvidia-smi cannot tell it."""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any, Dict

try:
    import ctypes
except ImportError:  # a Python built without libffi
    ctypes = None  # type: ignore[assignment]

# cuda.h: CUdevice_attribute
COMPUTE_CAPABILITY_MAJOR = 75
COMPUTE_CAPABILITY_MINOR = 76


def main() -> int:
    """Prints {"GPU-<uuid>": "7.5", ...}; runs in a process of its own, for a sick card may never let it return."""
    json.dump(read_capabilities(ctypes.CDLL("libcuda.so.1")), sys.stdout)
    return 0


def read_capabilities(cuda: Any) -> Dict[str, str]:
    """By UUID as nvidia-smi writes it. Raises OSError where the library does not start."""
    if cuda.cuInit(0) != 0:
        raise OSError("cuInit failed")
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    found: Dict[str, str] = {}
    for number in range(count.value):
        device, identity = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        cuda.cuDeviceGet(ctypes.byref(device), number)
        cuda.cuDeviceGetUuid(ctypes.byref(identity), device)
        parts = []
        for attribute in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR):
            value = ctypes.c_int()
            cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            parts.append(str(value.value))
        found[f"GPU-{uuid.UUID(bytes=bytes(identity))}"] = ".".join(parts)
    return found
