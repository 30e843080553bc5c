"""`payload.pyz card-step`, run by the project's interpreter: twenty steps of a small LoRA model on the real device.

torch is imported inside the functions, because this module must be importable without torch.
"""

from __future__ import annotations

import io
import json
import math
import sys
import time
from typing import Any, Dict, List, Optional

from remote.protocol.card import CardFacts
from remote.protocol.precision import PrecisionPlan
from remote.protocol.values import decode, encode

STEPS = 20
WIDTH, RANK, VOCABULARY, LENGTH = 128, 8, 512, 32
RATE = 4e-2


def main() -> int:
    """Write the CardFacts to stdout as JSON."""
    plan = decode(PrecisionPlan, json.loads(sys.stdin.read())["plan"])
    print(json.dumps(encode(try_card(plan))))
    return 0


def try_card(plan: PrecisionPlan) -> CardFacts:
    """Train a small model in the plan's precision. Return the measurements, or the error if the device raises one."""
    import torch

    began = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    facts: Dict[str, Any] = {"device": "cpu", "torch": torch.__version__}
    try:
        if device == "cuda":
            facts["device"] = torch.cuda.get_device_name()
            facts["capability"] = tuple(torch.cuda.get_device_capability())
        facts.update(_train(torch, plan, device))
    except (RuntimeError, ValueError, AssertionError) as error:
        facts["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return CardFacts(**facts, seconds=time.monotonic() - began)


def _train(torch: Any, plan: PrecisionPlan, device: str) -> Dict[str, Any]:
    torch.manual_seed(0)
    weights = _make_weights(torch, device)
    batch = _make_batch(torch, device)
    with torch.no_grad():
        exact = float(_loss(torch, _cast(torch, weights, "float32", "float32"), *batch))
    cast = _cast(torch, weights, plan.frozen_dtype, plan.trainable_dtype)
    trained = [tensor for name, tensor in cast.items() if name.startswith("lora")]
    optimizer = torch.optim.AdamW(trained, lr=RATE)
    scaler = torch.amp.GradScaler(device, enabled=plan.scaler, init_scale=plan.init_scale if plan.scaler else 1.0)
    losses: List[float] = []
    skipped = 0
    for _ in range(STEPS):
        with _autocast(torch, plan, device):
            loss = _loss(torch, cast, *batch)
        scaler.scale(loss).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < before
        optimizer.zero_grad()
        losses.append(float(loss.detach().float()))
    return {
        "losses": tuple(_finite(loss) for loss in losses),
        "skipped": skipped,
        "scale": float(scaler.get_scale()) if plan.scaler else None,
        "loss_gap": _finite(abs(losses[0] - exact) / abs(exact)),
        "padding_gap": _finite(_padding_gap(torch, cast, batch, plan, device)),
        "trained_dtypes": tuple(sorted({_name(tensor.dtype) for tensor in trained})),
        "state_dtypes": _state_dtypes(optimizer),
        "attention": _attention(torch, plan, device),
        "resumed_equal": _resumes(torch, trained, optimizer, scaler),
        "peak_bytes": int(torch.cuda.max_memory_allocated()) if device == "cuda" else None,
    }


def _make_weights(torch: Any, device: str) -> Dict[str, Any]:
    """Return an embedding, one attention layer with LoRA on query and value, and a head, in float32."""
    weights = {
        name: torch.randn(*shape, device=device) * 0.05
        for name, shape in {
            "query": (WIDTH, WIDTH),
            "key": (WIDTH, WIDTH),
            "value": (WIDTH, WIDTH),
            "out": (WIDTH, WIDTH),
            "head": (VOCABULARY, WIDTH),
            "lora_query_a": (RANK, WIDTH),
            "lora_value_a": (RANK, WIDTH),
        }.items()
    }
    weights["embedding"] = torch.randn(VOCABULARY, WIDTH, device=device)
    for name in ("lora_query_b", "lora_value_b"):
        weights[name] = torch.zeros(WIDTH, RANK, device=device)
    return weights


def _make_batch(torch: Any, device: str) -> Any:
    tokens = torch.randint(1, VOCABULARY, (4, LENGTH), device=device)
    lengths = torch.tensor([LENGTH, LENGTH // 2, LENGTH // 4, LENGTH], device=device)
    return tokens, lengths


def _cast(torch: Any, weights: Dict[str, Any], frozen: str, trained: str) -> Dict[str, Any]:
    cast = {}
    for name, tensor in weights.items():
        adapter = name.startswith("lora")
        cast[name] = tensor.detach().clone().to(getattr(torch, trained if adapter else frozen)).requires_grad_(adapter)
    return cast


def _autocast(torch: Any, plan: PrecisionPlan, device: str) -> Any:
    dtype = getattr(torch, plan.autocast_dtype) if plan.autocast_dtype else None
    return torch.autocast(device, dtype=dtype, enabled=dtype is not None)


def _loss(torch: Any, weights: Dict[str, Any], tokens: Any, lengths: Any) -> Any:
    """Return the cross entropy of the next token in float32, without padding."""
    functional = torch.nn.functional

    def project(name: str, x: Any) -> Any:
        low = functional.linear(functional.linear(x, weights[f"lora_{name}_a"]), weights[f"lora_{name}_b"])
        return functional.linear(x, weights[name]) + low

    x = functional.embedding(tokens, weights["embedding"])
    query, value = project("query", x), project("value", x)
    key = functional.linear(x, weights["key"])
    heads = [part.unflatten(-1, (4, WIDTH // 4)).transpose(1, 2) for part in (query, key, value)]
    attended = functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)
    scores = functional.linear(x + functional.linear(attended, weights["out"]), weights["head"]).float()
    positions = torch.arange(1, tokens.shape[1], device=tokens.device)
    targets = tokens[:, 1:].masked_fill(positions[None, :] >= lengths[:, None], -100)
    return functional.cross_entropy(scores[:, :-1].flatten(0, 1), targets.flatten(), ignore_index=-100)


def _padding_gap(torch: Any, weights: Dict[str, Any], batch: Any, plan: PrecisionPlan, device: str) -> float:
    """Return the relative difference between the loss of a padded batch and the loss of its rows one by one."""
    tokens, lengths = batch
    with torch.no_grad(), _autocast(torch, plan, device):
        together = float(_loss(torch, weights, tokens, lengths))
        total = 0.0
        for row, length in zip(tokens, lengths.tolist()):
            total += float(_loss(torch, weights, row[None, :length], lengths.new_tensor([length]))) * (length - 1)
    separate = total / float((lengths - 1).sum())
    return abs(together - separate) / abs(separate)


def _state_dtypes(optimizer: Any) -> Any:
    moments = [value for state in optimizer.state.values() for value in state.values() if hasattr(value, "dtype")]
    return tuple(sorted({_name(value.dtype) for value in moments if value.numel() > 1}))


def _attention(torch: Any, plan: PrecisionPlan, device: str) -> str:
    """Return the attention backend that torch chooses for the plan's precision on this device."""
    dtype = getattr(torch, plan.autocast_dtype or plan.frozen_dtype)
    part = torch.zeros(1, 4, LENGTH, WIDTH // 4, device=device, dtype=dtype, requires_grad=True)
    choice = int(torch._fused_sdp_choice(part, part, part, None, 0.0, True))
    return {0: "math", 1: "flash", 2: "mem-efficient", 3: "cudnn"}.get(choice, str(choice))


def _resumes(torch: Any, trained: List[Any], optimizer: Any, scaler: Any) -> bool:
    """Return True if optimizer and scaler have the same dtypes and values after saving and loading."""
    file = io.BytesIO()
    torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other = torch.optim.AdamW(trained, lr=RATE)
    other.load_state_dict(saved["optimizer"])
    for parameter in trained:
        before, after = optimizer.state[parameter], other.state[parameter]
        for name, value in before.items():
            if hasattr(value, "dtype") and not (value.dtype == after[name].dtype and torch.equal(value, after[name])):
                return False
    return bool(saved["scaler"] == scaler.state_dict())


def _finite(value: float) -> Optional[float]:
    """Return None for NaN and infinity, which JSON cannot represent."""
    return value if math.isfinite(value) else None


def _name(dtype: Any) -> str:
    return str(dtype).replace("torch.", "")
