"""The operation `card.step`, which trains a small model on the real device and judges the result."""

from __future__ import annotations

from typing import Any, Dict, Iterator

from remote.payload.probes.compute_node import place_of
from remote.payload.probes.project_python import ask_python
from remote.payload.probes.python import InterpreterFault, find_python
from remote.payload.proof.evidence import error, passed, warning
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.payload.request.refusal import Refusal
from remote.payload.tree.state import Project
from remote.protocol.card import QUEUE_S, CardFacts, CardReport, CardRequest
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.layout import ProjectLayout
from remote.protocol.precision import Mode, PrecisionPlan
from remote.protocol.values import decode, encode

GAP = 1e-2
PADDING_GAP = 1e-3
FALL = 0.5


def step_card(call: Call) -> Dict[str, Any]:
    """Return the CardReport for a CardRequest. Writes nothing."""
    request = decode(CardRequest, call.args)
    project = Project(call.workdir, ProjectLayout(checked_name(request.project)))
    environment = dict(request.environment)
    if request.slurm is None and request.gpus is not None:  # Slurm chooses the card itself.
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in request.gpus)
    try:
        python = find_python(request.python, project)
    except InterpreterFault as fault:
        raise Refusal("interpreter", str(fault), where=request.python, exit_code=ExitCode.ENVIRONMENT) from None
    arguments = {"plan": encode(request.plan)}
    deadline_s = request.deadline_s if request.slurm is None else QUEUE_S + request.deadline_s
    with place_of(call, project.layout, request.slurm, request.deadline_s) as place:
        answer = ask_python(python, place, "card-step", arguments, environment, deadline_s)
    facts = decode(CardFacts, answer)
    report: Dict[str, Any] = encode(CardReport(facts, tuple(judge_card(facts, request.plan))))
    return report


def judge_card(facts: CardFacts, plan: PrecisionPlan) -> Iterator[Finding]:
    """Yield a finding for each checked property of the small training."""
    if facts.error:
        yield error("card-step", f"a small training step failed on {facts.device}: {facts.error}", code=ExitCode.GPU)
        return
    if facts.capability is None:
        yield warning("card-step", "no card was found: the step ran on the CPU and proves nothing about a card")
    yield from _learning(facts)
    half = [name for name in facts.trained_dtypes + facts.state_dtypes if name != "float32"]
    if half and plan.mode is not Mode.FP16_PURE:
        yield error("trainable-dtype", f"the small adapter or its moments are {half[0]}")
    yield from _gaps(facts)
    if facts.resumed_equal is False:
        yield error("resume-probe", "optimizer or scaler differ after saving and loading")
    elif facts.resumed_equal:
        yield passed("resume-probe", "optimizer and scaler are the same after saving and loading")
    if facts.attention == "math" and facts.capability is not None:
        yield warning("attention-backend", "attention uses the math kernel on this card, even for a plain causal mask")
    elif facts.attention:
        yield passed("attention-backend", facts.attention)


def _learning(facts: CardFacts) -> Iterator[Finding]:
    finite = [loss for loss in facts.losses if loss is not None]
    first, last = finite[0] if finite else 0.0, finite[-1] if finite else 0.0
    if len(finite) < len(facts.losses) or not finite:
        yield error("loss-finite", f"a small model's loss was not finite on {facts.device}")
    elif last > first * FALL:
        yield error("tiny-overfit", f"the loss of four samples fell only from {first:.3g} to {last:.3g}")
    else:
        yield passed("tiny-overfit", f"the loss of four samples fell from {first:.3g} to {last:.3g}")
    if facts.scale is not None and facts.skipped > len(facts.losses) / 2:
        yield error("scaler-trajectory", f"{facts.skipped} of {len(facts.losses)} steps were skipped")
    elif facts.scale is not None:
        yield passed(
            "scaler-trajectory", f"{facts.skipped} of {len(facts.losses)} steps skipped, scale {facts.scale:g}"
        )


def _gaps(facts: CardFacts) -> Iterator[Finding]:
    rows = (
        ("loss-agreement", facts.loss_gap, GAP, "float32"),
        ("padding-agreement", facts.padding_gap, PADDING_GAP, "separate rows without padding"),
    )
    for check, gap, most, other in rows:
        if gap is None:
            continue
        message = f"the loss is within {gap:.1e} of that of {other}"
        yield (
            passed(check, message) if gap <= most else error(check, f"the loss is {gap:.1e} away from that of {other}")
        )
