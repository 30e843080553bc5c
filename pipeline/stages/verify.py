"""Stage `verify`: prove on the card, with the real command, that the training works in the chosen precision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.judgements.compute_node import judge_node_card
from pipeline.judgements.host import card_name
from pipeline.judgements.label_padding import FIXER, is_suspected, with_padding_errors
from pipeline.loading import LazyModule
from pipeline.messages.masked import masked
from pipeline.records.files import write_atomic
from pipeline.records.inputs import Inputs
from pipeline.runs.backend import srun_options
from pipeline.runs.command import command_of, data_at, environment_of, interpreter_of, proof_place, steps_of
from pipeline.runs.fixes import plan_for
from pipeline.runs.launch import describe_launch_changes
from pipeline.runs.launcher import describe_processes
from pipeline.runs.run_id import training_fingerprint, training_inputs
from pipeline.runs.runtime import describe_runtime, runtime_of
from pipeline.runs.secrets import secret_values
from pipeline.runs.view import View
from pipeline.stages.free_card import await_free_card
from pipeline.stages.new_run import announce_new_run, warn_of_other_runs
from pipeline.stages.stage import Context, StageResult
from remote.operations.proof import run_proof, step_card
from remote.protocol.card import CardRequest
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Report, Severity
from remote.protocol.proof import ProofReport, ProofRequest, ProvedStep
from remote.protocol.quantities import duration
from remote.protocol.shell import shell_command

if TYPE_CHECKING:
    from pipeline.diagnosis import diagnose
    from pipeline.judgements import copied_labels, static
    from pipeline.runs import laptop_paths, missing_files, missing_modules, project_code, tracker_key
else:
    diagnose = LazyModule("pipeline.diagnosis.diagnose")
    copied_labels = LazyModule("pipeline.judgements.copied_labels")
    static = LazyModule("pipeline.judgements.static")
    laptop_paths = LazyModule("pipeline.runs.laptop_paths")
    missing_files = LazyModule("pipeline.runs.missing_files")
    missing_modules = LazyModule("pipeline.runs.missing_modules")
    project_code = LazyModule("pipeline.runs.project_code")
    tracker_key = LazyModule("pipeline.runs.tracker_key")

PROOF_VERSION = 2


class Verify:
    """Runs the static checks, a small model on the card, and the real command for two optimizer steps."""

    name = "verify"
    exit_code = ExitCode.PRECISION

    def inputs(self, view: View) -> Inputs:
        cures = ", ".join(cure.name for cure in view.cures if cure.overrides)
        return {**training_inputs(view), "cures": cures or "none", "proof": str(PROOF_VERSION)}

    def check(self, view: View) -> Report:
        """Return the findings of the precision plan. A proof leaves no files on the host that could be checked."""
        return Report(view.precision.findings)

    def summary(self, view: View) -> str:
        return f"proved for {_mode(view)}"

    def run(self, context: Context) -> StageResult:
        """Run the real command under hooks for two optimizer steps, then remove all files that it wrote."""
        view = context.view
        announce_new_run(context)
        warn_of_other_runs(context)
        await_free_card(context)
        code = project_code.judge_code(view)
        code = code.plus(laptop_paths.laptop_paths(context.host, view)).plus(tracker_key.wandb_key(context.host, view))
        card = try_card(context) if code.ok else Report()
        if not (code.ok and card.ok):
            return StageResult(code.plus(card))
        for words in filter(None, (describe_launch_changes(view), describe_processes(view), describe_runtime(view))):
            context.listener.note(words)
        context.listener.progress("running the real command until two optimizer steps take effect")
        proof = prove(context)
        context.evidence = context.evidence.with_proof(training_fingerprint(view), proof)
        notes = tuple(f"{name}: {value}" for name, value in proof.report.facts)
        code = static.without_refuted(code, Report(proof.findings))
        lacking = missing_modules.missing_after(context.host, view, proof.exit)
        report = lacking.plus(diagnose_proof(view, proof)).plus(code).plus(card).plus(proof.report)
        caveat = f"not proved: {proof.blind.message}" if proof.blind else _caveat(view, proof)
        return StageResult(report, describe_proof(view, proof), notes, caveat=caveat)


def diagnose_proof(view: View, proof: ProofReport) -> Report:
    """Diagnose the output of a command that failed in the proof, unless the proof already gives the reason.

    The output is stored in the project's records, where the user and `pipeline diagnose` can read it. It replaces the
    output of an earlier proof.
    """
    stored = view.records.proof_output(view.host.name, view.loaded.record)
    if not proof.exit or proof.explains_failure:
        stored.unlink(missing_ok=True)
        return project_code.judge_unseen(view, proof) if proof.blind else Report()
    view.records.prepare()
    write_atomic(stored, proof.output_tail.encode("utf-8", "replace"))
    name = stored.relative_to(view.records.root).as_posix()
    explain = missing_files.explained_by(view.loaded.root)
    found = diagnose.diagnose_text(proof.output_tail, name, explain=explain)
    found = diagnose.with_undo(found, view.survey.tree.fixed)
    show = shell_command("less {}", name)
    found = tuple(replace(one, hint=show) if one.check == diagnose.UNKNOWN else one for one in found)
    return Report(tuple(missing_modules.with_reason(one, view) for one in found))


def proof_request(view: View, source: str = "") -> ProofRequest:
    """Return the request of a proof. `source` is a scratch tree on the host; "" selects the project's own tree."""
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
        slurm=srun_options(view.host.config, view.config),
    )


def try_card(context: Context) -> Report:
    """Train a small LoRA model on the card. If there is no card, report that the check was not run."""
    view = context.view
    gpu = view.survey.gpu
    slurm = srun_options(view.host.config, view.config)
    if slurm is None and (gpu is None or gpu.assumed):
        return Report(facts=(("not checked: card-step", "the host's driver lists no card"),))
    where = "a compute node" if slurm is not None else "the card"
    context.listener.progress(f"training a small LoRA model on {where} for twenty steps")
    gpus = view.host.config.gpus
    request = CardRequest(
        view.layout.key, interpreter_of(view), view.precision, gpus, environment_of(view), slurm=slurm
    )
    made = step_card(context.host, request)
    return Report((*made.findings, *(judge_node_card(made.facts, gpu) if slurm is not None else ())))


def prove(context: Context, source: str = "") -> ProofReport:
    """Run the proof and return its report, with secrets masked. `source` is described in `proof_request`."""
    steps = 0

    def report_step(step: ProvedStep) -> None:
        nonlocal steps
        steps += 1
        loss = f", loss {step.loss:.4g}" if step.loss is not None else ""
        context.listener.progress(f"step {steps} {_effect(step)}{loss}")

    request = proof_request(context.view, source)
    proof = masked(run_proof(context.host, request, on_step=report_step), request.secrets.values())
    return with_label_edits(context.view, proof)


def _effect(step: ProvedStep) -> str:
    """Return 'applied', 'skipped', or the reason why an applied step does not count as one of the two steps."""
    if not step.applied:
        return "skipped"
    return "applied (learning rate 0, no effect)" if step.learning_rate == 0 else "applied"


def with_label_edits(view: View, proof: ProofReport) -> ProofReport:
    """Add to findings about labels the lines that caused them: edits of the fixer `label-padding`, or copied ids."""
    argv = view.config.command or ()
    proof = replace(proof, findings=copied_labels.with_copied_labels(proof.findings, view.scan, argv))
    if not is_suspected(proof.findings):
        return proof
    return replace(proof, findings=with_padding_errors(proof.findings, plan_for(view, None, only=[FIXER]).changes))


def describe_proof(view: View, proof: ProofReport) -> str:
    """Return 'fp16-mixed works: 1.2 s per step, about 3 min for all steps, 40 s to load, peak ...'."""
    mode = _mode(view)
    unproved = proof.too_slow or (proof.blind if proof.ok else None)
    if unproved:
        return f"{mode}: not proved: {unproved.message}"
    if not proof.ok:
        return f"{mode} would not train"
    trains = _caveat(view, proof) or f"{mode} works"
    measured = []
    if proof.step_seconds is not None:
        measured.append(f"{duration(proof.step_seconds)} per step")
    if proof.eta_s is not None:
        measured.append(f"about {duration(proof.eta_s)} for all steps, {duration(proof.loading_s)} to load")
    if proof.peak_bytes is not None and proof.total_bytes:
        measured.append(f"peak {proof.peak_bytes / 2**30:.1f} of {proof.total_bytes / 2**30:.1f} GiB")
    if proof.memory:
        measured.append(proof.memory)
    return f"{trains}: {', '.join(measured)}" if measured else trains


def _mode(view: View) -> str:
    """Return the precision mode, with "(runtime: auto)" if the hooks apply the mode."""
    mode = view.precision.mode.value
    return f"{mode} (runtime: auto)" if runtime_of(view) else mode


def _caveat(view: View, proof: ProofReport) -> str:
    """Return a phrase if the command trained without the planned autocast or without the assumed card, else ""."""
    gpu = view.survey.gpu
    if gpu is not None and gpu.assumed and not proof.total_bytes:
        card = f"the assumed card ({card_name(gpu)})"
        if view.precision.autocast_dtype and any(one.check == "autocast" for one in proof.unseen):
            return f"trains on this CPU without float16; {_mode(view)} is not proved on {card}"
        return f"{_mode(view)} trains on this CPU, not proved on {card}"
    return _without_autocast(view, proof)


def _without_autocast(view: View, proof: ProofReport) -> str:
    """Return a phrase if the command trained without the autocast of the planned mode, else ""."""
    without = any(one.check == "autocast" and one.severity is Severity.WARNING for one in proof.findings)
    planned = view.precision
    return f"trains without the autocast of {planned.mode.value}" if without and planned.autocast_dtype else ""
