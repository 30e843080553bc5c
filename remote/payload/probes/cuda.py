"""Read the compute capability of each GPU from libcuda, for drivers whose nvidia-smi does not report it."""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any, Dict

try:
    import ctypes
except ImportError:  # A Python that was built without libffi has no ctypes.
    ctypes = None  # type: ignore[assignment]

# cuda.h: CUdevice_attribute
COMPUTE_CAPABILITY_MAJOR = 75
COMPUTE_CAPABILITY_MINOR = 76


def main() -> int:
    """Print {"GPU-<uuid>": "7.5", ...}. Runs in its own process, because a broken GPU may block it forever."""
    json.dump(read_capabilities(ctypes.CDLL("libcuda.so.1")), sys.stdout)
    return 0


def read_capabilities(cuda: Any) -> Dict[str, str]:
    """Map each GPU's UUID, as nvidia-smi prints it, to its capability. Raises OSError if cuInit fails."""
    if cuda.cuInit(0) != 0:
        raise OSError("cuInit failed")
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    capabilities: Dict[str, str] = {}
    for number in range(count.value):
        device, identity = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        cuda.cuDeviceGet(ctypes.byref(device), number)
        cuda.cuDeviceGetUuid(ctypes.byref(identity), device)
        parts = []
        for attribute in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR):
            value = ctypes.c_int()
            cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            parts.append(str(value.value))
        capabilities[f"GPU-{uuid.UUID(bytes=bytes(identity))}"] = ".".join(parts)
    return capabilities
