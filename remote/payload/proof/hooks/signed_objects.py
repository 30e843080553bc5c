"""Sign the objects that the processes of one host exchange, so that nobody else's pickle is loaded.

The connections between the processes have no password, and torch unpickles the result of `all_gather_object`,
`broadcast_object_list` and the other object collectives. accelerate and many scripts call them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sys
import warnings
from typing import Any, Callable, Tuple

from .patching import replace
from .private_store import runs_on_one_host

KEY = "HALFSTEP_KEY_FILE"
"""The environment variable with the path of the job's key. Only this user can read the file."""
KEY_BYTES = 32
SIGNATURE_BYTES = hashlib.sha256().digest_size
PACK, UNPACK = "_object_to_tensor", "_tensor_to_object"
"""torch's functions that pickle and unpickle the objects of all its object collectives, since torch 1.8."""
NO_KEY = (
    "the key {} of this job cannot be read: {}. The processes of a training sign with it what they send each other;"
    " if the command runs in a container, the container needs this folder"
)
UNPATCHED = (
    "torch {} has no {} to patch, so the processes of this training exchange unsigned objects: another user of this"
    " host who connects to its ports could run code in it"
)
UNSIGNED = (
    "an object from another process of the training has no valid signature of this job, so it is not unpickled: "
    "another program may be connected to the ports of this training"
)


def sign_objects() -> None:
    """Patch the object collectives of the imported torch, in a job with a key whose processes are on one host.

    Raises RuntimeError if the key cannot be read. Without it, an object of another user could be unpickled.
    """
    module = sys.modules.get("torch.distributed.distributed_c10d")
    path = os.environ.get(KEY, "")
    if not path or module is None or not runs_on_one_host():
        return
    key = _read_key(path)
    missing = [name for name in (PACK, UNPACK) if not hasattr(module, name)]
    if missing:
        torch_version = getattr(sys.modules.get("torch"), "__version__", "")
        warnings.warn(UNPATCHED.format(torch_version, " and ".join(missing)), RuntimeWarning, stacklevel=2)
        return
    replace(module, PACK, _signing(sys.modules["torch"], key))
    replace(module, UNPACK, _verifying(key))


def _read_key(path: str) -> bytes:
    problem: object = f"it is shorter than {KEY_BYTES} bytes"
    try:
        with open(path, "rb") as file:
            key = file.read(KEY_BYTES)
    except OSError as error:
        key, problem = b"", error.strerror
    if len(key) < KEY_BYTES:
        raise RuntimeError(NO_KEY.format(path, problem))
    return key


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
