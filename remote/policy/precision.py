"""The only module that decides dtypes, autocast and loss scaling, from the card and the requested precision.

The rule: with fp16 autocast and a GradScaler, every trainable parameter is float32; frozen parameters may be float16.
bfloat16 requires compute capability 8.0 or higher. `torch.cuda.is_bf16_supported()` is not used: since torch 2.4 it is
also True on Turing, because it includes emulation. See docs/precision.md.
"""

from __future__ import annotations

from dataclasses import replace

from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.precision import Mode, PrecisionPlan

BF16_FROM = (8, 0)
TENSOR_CORES_FROM = (7, 0)
SCALE_START = 65536.0
"""The initial scale of `torch.amp.GradScaler`, which doubles after 2000 good steps and halves at each overflow."""

_PLANS: dict[Mode, PrecisionPlan] = {
    Mode.BF16: PrecisionPlan(Mode.BF16, "bfloat16", "float32", "bfloat16", False, "sdpa", "float32", 1.0, ""),
    Mode.FP16_MIXED: PrecisionPlan(
        Mode.FP16_MIXED, "float16", "float32", "float16", True, "sdpa", "float32", SCALE_START, ""
    ),
    Mode.FP16_PURE: PrecisionPlan(Mode.FP16_PURE, "float16", "float16", None, False, "sdpa", "float32", 1.0, ""),
    Mode.FP32: PrecisionPlan(Mode.FP32, "float32", "float32", None, False, "sdpa", "float32", 1.0, ""),
}


def supports_bf16(capability: tuple[int, int] | None) -> bool:
    """Return True if the card supports bfloat16 natively. A capability of None means the CPU."""
    return capability is not None and tuple(capability) >= BF16_FROM


def judge_precision(
    *,
    capability: tuple[int, int] | None,
    requested: str = "auto",
    card: str = "",
) -> PrecisionPlan:
    """Return the precision plan for the weakest of the selected cards. A `capability` of None means the CPU.

    Raises ValueError for an unknown mode, which the config loader rejects earlier.
    """
    who = _card_text(capability, card)
    wanted = None if requested == "auto" else Mode(requested)
    refusal = None
    if wanted is Mode.BF16 and capability is not None and not supports_bf16(capability):
        refusal = _no_bf16(who)
        wanted = None
    mode = wanted or _best(capability)
    because = _reason_for(mode, who, capability) if wanted is None else f"{requested} is configured, on {who}"
    return replace(
        _PLANS[mode],
        because=because,
        refusal=refusal,
        warnings=_warnings(mode, capability, who),
        tf32=supports_bf16(capability) and mode is not Mode.FP16_PURE,
    )


def _best(capability: tuple[int, int] | None) -> Mode:
    if capability is None:
        return Mode.FP32
    return Mode.BF16 if supports_bf16(capability) else Mode.FP16_MIXED


def _card_text(capability: tuple[int, int] | None, card: str) -> str:
    if capability is None:
        return "the CPU"
    digits = f"{capability[0]}.{capability[1]}"
    return f"{card} ({digits})" if card and digits not in card else card or f"a card of capability {digits}"


def _reason_for(mode: Mode, who: str, capability: tuple[int, int] | None) -> str:
    if mode is Mode.FP32:
        return "no card was found, and on a CPU half precision saves no time"
    if mode is Mode.BF16:
        return f"{who} supports bfloat16, which needs no loss scaling"
    tensor_cores = capability is not None and capability >= TENSOR_CORES_FROM
    speed = "its tensor cores compute in float16" if tensor_cores else "float16 still halves the frozen weights"
    return f"{who} is below capability 8.0 and only emulates bfloat16, while {speed}"


def _no_bf16(who: str) -> Finding:
    return Finding(
        "bf16-unsupported",
        Severity.ERROR,
        f"bf16 is configured, but {who} is below capability 8.0 and can only emulate bfloat16",
        where="precision",
        hint="precision: auto",
        exit_code=ExitCode.PRECISION,
    )


def _warnings(mode: Mode, capability: tuple[int, int] | None, who: str) -> tuple[Finding, ...]:
    warnings = []
    if mode is Mode.FP16_PURE:
        warnings.append(
            _warning(
                "fp16-pure",
                "trainable float16 without loss scaling: Adam's eps 1e-8 is 0 in float16 and most updates are lost",
                "precision: auto",
            )
        )
    if capability is None and mode in (Mode.FP16_MIXED, Mode.BF16):
        warnings.append(
            _warning("precision-on-cpu", f"{mode.value} on a CPU is slow; use it only as a stand-in for a card", "")
        )
    if capability is not None and capability < TENSOR_CORES_FROM and mode in (Mode.FP16_MIXED, Mode.FP16_PURE):
        warnings.append(_warning("no-tensor-cores", f"{who} has no tensor cores: float16 saves memory, not time", ""))
    if capability is not None and mode is Mode.FP32 and capability >= TENSOR_CORES_FROM:
        warnings.append(
            _warning("fp32-on-tensor-cores", f"fp32 leaves the tensor cores of {who} unused", "precision: auto")
        )
    return tuple(warnings)


def _warning(check: str, message: str, hint: str) -> Finding:
    return Finding.warning(check, message, "precision", hint)
