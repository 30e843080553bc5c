"""Stage `verify`: half precision will train, proved on the card with the real script."""

from __future__ import annotations

from dataclasses import replace

from pipeline.diagnosis.diagnose import diagnose_text
from pipeline.judgements.label_padding import FIXER, blamed, is_suspected
from pipeline.judgements.static import judge_static, refuted
from pipeline.messages.masked import masked
from pipeline.messages.quantities import duration
from pipeline.records.inputs import Inputs
from pipeline.stages.stage import Context, Done
from pipeline.work.command import command_of, data_at, environment_of, interpreter_of, proof_place, steps_of
from pipeline.work.fixes import plan_for, tree_as_fixed
from pipeline.work.laptop_paths import laptop_paths
from pipeline.work.launch import launch_in_words
from pipeline.work.run_id import what_is_trained
from pipeline.work.secrets import secret_values
from pipeline.work.view import View
from remote.operations.proof import run_proof, step_card
from remote.protocol.card import CardRequest
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Report
from remote.protocol.proof import ProofReport, ProofRequest, StepSeen

PROOF_VERSION = 1


class Verify:
    """What the card will do with this script and this data, seen for two optimizer steps."""

    name = "verify"
    exit_code = ExitCode.PRECISION

    def inputs(self, view: View) -> Inputs:
        cures = ", ".join(cure.name for cure in view.cures if cure.overrides)
        return {**what_is_trained(view), "cures": cures or "none", "proof": str(PROOF_VERSION)}

    def check(self, view: View) -> Report:
        """The proof itself leaves nothing behind to look at; its claim rests on equal inputs."""
        return Report(view.precision.findings)

    def holds(self, view: View) -> str:
        return f"proved for {view.precision.mode.value}"

    def run(self, context: Context) -> Done:
        """Runs the real command under hooks until two steps were applied, ends it and removes its traces."""
        view = context.view
        asked = judge_static(tree_as_fixed(view), view.precision).and_also(laptop_paths(context.host, view))
        card = try_card(context) if asked.ok else Report()
        if not (asked.ok and card.ok):
            return Done(asked.and_also(card))
        if words := launch_in_words(view):
            context.listener.note(words)
        context.listener.progress("running the real command for two optimizer steps")
        proof = prove(context)
        context.evidence = replace(context.evidence, proof=proof)
        notes = tuple(f"{name}: {value}" for name, value in proof.report.facts)
        asked = refuted(asked, Report(proof.findings))
        report = diagnosed(proof).and_also(asked).and_also(card).and_also(proof.report)
        caveat = f"not proved: {proof.blind.message}" if proof.blind else ""
        return Done(report, in_words(view, proof), notes, caveat=caveat)


def diagnosed(proof: ProofReport) -> Report:
    """What the output of a command that failed says of its cause."""
    return Report(diagnose_text(proof.output_tail, "the end of the proof's output")) if proof.exit else Report()


def proof_request(view: View, source: str = "") -> ProofRequest:
    """What is to be proved; `source` is a scratch tree on the host, empty for the project's own."""
    gpu, place = view.survey.gpu, proof_place(view, source)
    return ProofRequest(
        project=view.layout.key,
        argv=command_of(view, place),
        plan=view.precision,
        capability=gpu.capability if gpu else None,
        card_seen=gpu is not None and not gpu.assumed,
        source=source,
        environment=environment_of(view, place),
        secrets=secret_values(view.host.config, view.config),
        run_steps=steps_of(view),
        data=data_at(view, place),
    )


def try_card(context: Context) -> Report:
    """The second depth: a small model on the card itself, where the host's driver lists one; else why not."""
    view = context.view
    gpu = view.survey.gpu
    if gpu is None or gpu.assumed:
        return Report(facts=(("not checked: card-step", "the host has no card that could be asked"),))
    context.listener.progress("twenty steps of a small LoRA model on the card")
    gpus = view.host.config.gpus
    request = CardRequest(view.layout.key, interpreter_of(view), view.precision, gpus, environment_of(view))
    return Report(step_card(context.host, request).findings)


def prove(context: Context, source: str = "") -> ProofReport:
    """The proof, wherever the tree lies."""
    seen = 0

    def told(step: StepSeen) -> None:
        nonlocal seen
        seen += 1
        loss = f", loss {step.loss:.4g}" if step.loss is not None else ""
        context.listener.progress(f"step {seen} {'applied' if step.applied else 'skipped'}{loss}")

    request = proof_request(context.view, source)
    return with_blame(context.view, masked(run_proof(context.host, request, told=told), request.secrets.values()))


def with_blame(view: View, proof: ProofReport) -> ProofReport:
    """The proof, with the edits of label-padding named where they reached a loss that does not ignore -100."""
    if not is_suspected(proof.findings):
        return proof
    return replace(proof, findings=blamed(proof.findings, plan_for(view, None, only=[FIXER]).changes))


def in_words(view: View, proof: ProofReport) -> str:
    """'fp16-mixed trains: 1.2 s a step, about 3 min in all, peak 17.1 of 23.7 GiB'."""
    mode = view.precision.mode.value
    unproved = proof.too_slow or (proof.blind if proof.ok else None)
    if unproved:
        return f"{mode}: not proved: {unproved.message}"
    if not proof.ok:
        return f"{mode} would not train"
    told = [f"{mode} trains"]
    if proof.step_seconds is not None:
        told.append(f"{duration(proof.step_seconds)} a step")
    if proof.eta_s is not None:
        told.append(f"about {duration(proof.eta_s)} in all")
    if proof.peak_bytes is not None and proof.total_bytes:
        told.append(f"peak {proof.peak_bytes / 2**30:.1f} of {proof.total_bytes / 2**30:.1f} GiB")
    return f"{told[0]}: {', '.join(told[1:])}" if told[1:] else told[0]
