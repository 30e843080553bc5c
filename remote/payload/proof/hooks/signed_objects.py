"""Sign the objects that the processes of one host exchange, so that nobody else's pickle is loaded.

The connections between the processes have no password, and torch unpickles the result of `all_gather_object`,
`broadcast_object_list` and the other object collectives. accelerate and many scripts call them. tests/contracts lists
every place in torch.distributed that unpickles.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import sys
import warnings
from typing import Any, Callable, Dict, Optional, Tuple

from .patching import replace
from .private_store import spans_hosts

KEY = "HALFSTEP_KEY_FILE"
"""The environment variable with the path of the job's key, which only this user can read.

The supervisor sets it if all processes of the job are on this host, however the command starts them.
"""
KEY_BYTES = 32
SIGNATURE_BYTES = hashlib.sha256().digest_size
ZERO = "torch.distributed.optim.zero_redundancy_optimizer"
RENDEZVOUS = "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend"
PACK, UNPACK = "_object_to_tensor", "_tensor_to_object"
"""torch's functions that pickle and unpickle the objects of all its object collectives, since torch 1.8."""
OTHER_HOSTS = 'if the command starts processes on other hosts, set env: {HALFSTEP_KEY_FILE: ""} in the config'
NO_KEY = (
    "the key %s of this job cannot be read: %s. The processes of a training sign with it what they send each other;"
    f" if the command runs in a container, the container needs this folder; {OTHER_HOSTS}"
)
UNPATCHED = (
    "torch {} has no {} to patch, so the processes of this training exchange unsigned objects: another user of this"
    " host who connects to its ports could run code in it"
)
UNSIGNED = (
    "an object from another process of the training has no valid signature of this job, so it is not unpickled: "
    f"another program may be connected to the ports of this training; {OTHER_HOSTS}"
)


def sign_objects() -> None:
    """Patch what unpickles data of other processes in the imported torch, in a job with a key.

    These are the object collectives, ZeroRedundancyOptimizer, and the rendezvous of a torchrun for one host. Each call
    decides whether it signs: torch sets the variables of a process that runs a function only after its import.
    """
    path = os.environ.get(KEY, "")
    if not path:
        return
    rendezvous, module = sys.modules.get(RENDEZVOUS), sys.modules.get("torch.distributed.distributed_c10d")
    if rendezvous is not None:
        replace(rendezvous, "create_backend", _signing_backend(path))
    if module is None:
        return
    missing = [name for name in (PACK, UNPACK) if not hasattr(module, name)]
    if missing:
        torch_version = getattr(sys.modules.get("torch"), "__version__", "")
        warnings.warn(UNPATCHED.format(torch_version, " and ".join(missing)), RuntimeWarning, stacklevel=2)
        return
    key = Key(path)
    replace(module, PACK, _signing(sys.modules["torch"], key))
    replace(module, UNPACK, _verifying(key))
    zero = sys.modules.get(ZERO)
    if zero is not None:
        replace(zero, "_broadcast_object", _broadcasting(sys.modules["torch"], key))


class Key:
    """The key of this job, which is read when it is first used."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._key = b""

    def signs(self, group: Any) -> bool:
        """Return True if the processes of this group, or of the default group for None, are several on this host."""
        return not spans_hosts() and not _is_alone(group)

    def signed(self, data: bytes) -> bytes:
        """Return the data with its signature. Raises RuntimeError if the key cannot be read."""
        self._key = self._key or _read_key(self._path)
        return data + hmac.new(self._key, data, "sha256").digest()

    def verified(self, received: bytes) -> bytes:
        """Return the data before the signature. Raises RuntimeError for an invalid signature."""
        data = received[:-SIGNATURE_BYTES]
        if not hmac.compare_digest(self.signed(data), received):
            raise RuntimeError(UNSIGNED)
        return data


def _is_alone(group: Any) -> bool:
    """Return True if the group consists of this process. Before a default group exists, None stands for unknown."""
    dist = sys.modules["torch.distributed.distributed_c10d"]
    known = group is not None or dist.is_initialized()
    return bool(known and dist.get_world_size(group) == 1)


def _group_of(call: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
    """Return the group of a call of PACK or UNPACK, their third argument since torch 2.1.

    torch before 2.1 does not pass the group: then the default group decides.
    """
    return named.get("group", call[2] if len(call) > 2 else None)


def _read_key(path: str) -> bytes:
    problem: object = f"it is shorter than {KEY_BYTES} bytes"
    try:
        with open(path, "rb") as file:
            key = file.read(KEY_BYTES)
    except OSError as error:
        key, problem = b"", error.strerror
    if len(key) < KEY_BYTES:
        raise RuntimeError(NO_KEY % (path, problem))
    return key


def _signing(torch: Any, key: Key) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Append a signature to the bytes of each object, and count it in their number."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def pack(*args: Any, **kwargs: Any) -> Tuple[Any, Any]:
            packed, size = original(*args, **kwargs)
            if not key.signs(_group_of(args, kwargs)):
                return packed, size
            data = bytearray(key.signed(_bytes_of(packed, packed.numel())))
            # Object collectives resize the tensor, for which torch must own its memory.
            return torch.frombuffer(data, dtype=torch.uint8).clone().to(packed.device), size + SIGNATURE_BYTES

        return pack

    return wrap


def _verifying(key: Key) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def unpack(tensor: Any, tensor_size: Any, *args: Any, **kwargs: Any) -> Any:
            if not key.signs(_group_of((tensor, tensor_size, *args), kwargs)):
                return original(tensor, tensor_size, *args, **kwargs)
            count = len(key.verified(_bytes_of(tensor, max(0, int(tensor_size)))))
            return original(tensor[:count], count, *args, **kwargs)

        return unpack

    return wrap


def _broadcasting(torch: Any, key: Key) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Append a signature to the bytes of the saved object, and load only bytes with a valid signature."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def broadcast(obj: Any, src_rank: int, group: Any = None, device: Any = "cpu") -> Any:
            if not key.signs(group):
                return original(obj, src_rank, group, device)
            dist = torch.distributed
            sends = dist.get_rank() == src_rank
            saved = io.BytesIO()
            if sends:
                torch.save(obj, saved)
            data = key.signed(saved.getvalue())
            size = torch.tensor([len(data)], device=device)
            dist.broadcast(size, src=src_rank, group=group)
            sent = torch.empty(int(size), dtype=torch.uint8, device=device)
            if sends:
                sent.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
            dist.broadcast(sent, src=src_rank, group=group)
            if sends:
                return obj
            received = io.BytesIO(key.verified(_bytes_of(sent, int(size))))
            return torch.load(received, map_location=device, weights_only=False)

        return broadcast

    return wrap


def _signing_backend(path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Sign the state of torchrun's rendezvous, which torchrun unpickles, if no other host takes part."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(params: Any) -> Any:
            backend, store = original(params)
            if params.max_nodes == 1:
                _sign_state(backend, Key(path))
            return backend, store

        return create

    return wrap


def _sign_state(backend: Any, key: Key) -> None:
    """Append a signature to the state in `set_state`, and verify and remove it in the answers of both methods."""
    get_state, set_state = backend.get_state, backend.set_state

    def verified(answer: Optional[Tuple[Any, ...]]) -> Optional[Tuple[Any, ...]]:
        return None if answer is None else (key.verified(answer[0]), *answer[1:])

    backend.get_state = lambda: verified(get_state())
    backend.set_state = lambda state, token=None: verified(set_state(key.signed(state), token))


def _bytes_of(tensor: Any, count: int) -> bytes:
    return bytes(tensor.detach()[:count].cpu().numpy().tobytes())
