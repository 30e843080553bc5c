"""Sign the objects that the processes of one host exchange, so that nobody else's pickle is loaded.

The connections between the processes have no password, and torch unpickles the result of `all_gather_object`,
`broadcast_object_list` and the other object collectives. accelerate and many scripts call them.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import sys
from typing import Any, Callable, Tuple

from .patching import replace
from .private_store import runs_on_one_host

KEY = "HALFSTEP_KEY_FILE"
"""The environment variable with the path of the job's key. Only this user can read the file."""
KEY_BYTES = 32
SIGNATURE_BYTES = hashlib.sha256().digest_size
UNSIGNED = (
    "an object from another process of the training has no valid signature of this job, so it is not unpickled: "
    "another program may be connected to the ports of this training"
)


def sign_objects() -> None:
    """Patch the object collectives of the imported torch, in a job with a key whose processes are on one host."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    key = _read_key(os.environ.get(KEY, ""))
    if module is not None and len(key) == KEY_BYTES and runs_on_one_host():
        torch = sys.modules["torch"]
        replace(module, "_object_to_tensor", _signing(torch, key))
        replace(module, "_tensor_to_object", _verifying(key))


def _read_key(path: str) -> bytes:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(KEY_BYTES)
    return b""


def _signing(torch: Any, key: bytes) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Append a signature to the bytes of each object, and count it in their number."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def pack(*args: Any, **kwargs: Any) -> Tuple[Any, Any]:
            packed, size = original(*args, **kwargs)
            signature = hmac.new(key, _bytes_of(packed, packed.numel()), "sha256").digest()
            appended = torch.frombuffer(bytearray(signature), dtype=torch.uint8).to(packed.device)
            return torch.cat((packed, appended)), size + SIGNATURE_BYTES

        return pack

    return wrap


def _verifying(key: bytes) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def unpack(tensor: Any, tensor_size: Any, *args: Any, **kwargs: Any) -> Any:
            count = int(tensor_size) - SIGNATURE_BYTES
            received = _bytes_of(tensor, max(0, int(tensor_size)))
            signature = hmac.new(key, received[: max(0, count)], "sha256").digest()
            if count < 0 or not hmac.compare_digest(signature, received[count:]):
                raise RuntimeError(UNSIGNED)
            return original(tensor[:count], count, *args, **kwargs)

        return unpack

    return wrap


def _bytes_of(tensor: Any, count: int) -> bytes:
    return bytes(tensor.detach()[:count].cpu().numpy().tobytes())
