"""The proof or the output reports every planted fault, and nothing for healthy scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.diagnosis.diagnose import diagnose_text
from remote.protocol.findings import Severity
from remote.protocol.proof import ProofReport
from tests.proof.conftest import Prove
from tests.proof.declared import declared, planned_steps

SCRIPTS = Path(__file__).parent / "scripts"
FAULTS = sorted((SCRIPTS / "faults").glob("*.py"))
HEALTHY = sorted((SCRIPTS / "healthy").glob("*.py"))


@pytest.fixture(scope="session")
def proved() -> dict[Path, ProofReport]:
    """The reports of the scripts that were proved without options."""
    return {}


@pytest.fixture
def prove(prove: Prove, proved: dict[Path, ProofReport]) -> Prove:
    """The proof of one script, which is made once for all tests that pass no options."""

    def run(script: Path, **options: object) -> ProofReport:
        if options:
            return prove(script, **options)
        if script not in proved:
            proved[script] = prove(script)
        return proved[script]

    return run


def run_of(script: Path) -> dict[str, object]:
    steps = planned_steps(script)
    return {"run_steps": int(steps), "environment": {"HALFSTEP_STEPS": steps}} if steps else {}


def test_there_are_thirty_faults_and_ten_healthy_scripts():
    assert len(FAULTS) >= 30
    assert len(HEALTHY) >= 10


@pytest.mark.parametrize("script", FAULTS, ids=lambda path: path.stem)
def test_a_planted_fault_is_named(script, prove):
    report = prove(script, **run_of(script))
    severities = {finding.check: finding.severity.value for finding in report.findings}
    found = {finding.check for finding in report.findings if finding.severity is not Severity.INFO}
    found |= {finding.check for finding in diagnose_text(report.output_tail)}
    expected = declared("expects", script)
    missing = [name for name, _ in expected if name not in found]
    assert not missing, f"{missing} not in {sorted(found)}\n{report.output_tail[-2000:]}"
    assert [(name, severities[name]) for name, severity in expected if severity] == [row for row in expected if row[1]]


@pytest.mark.parametrize("script", HEALTHY, ids=lambda path: path.stem)
def test_a_healthy_script_raises_no_error(script, prove):
    report = prove(script, **run_of(script))
    assert report.report.errors == (), report.output_tail[-2000:]
    assert report.applied >= 2
    shown = {(finding.check, finding.severity.value) for finding in report.findings}
    assert [row for row in declared("shows", script) if row not in shown] == [], report.findings
    assert ("loss-accumulation", "warning") not in shown, report.findings
    assert not [unseen for unseen in report.unseen if unseen.check == "hooks"]
    assert diagnose_text(report.output_tail) == ()


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("loss_zero", "loss-zero"),
        ("loss_constant", "loss-constant"),
        ("nothing_moves", "loss-constant"),
        ("nothing_moves", "adapter-moves"),
        ("optimizer_never_writes", "adapter-moves"),
        ("weights_put_back", "adapter-moves"),
        ("always_overflows", "scaler-trajectory"),
        ("halves_from_a_low_scale", "scaler-trajectory"),
        ("norm_overflows", "gradient-clipping"),
        ("clipped_to_zero", "gradient-clipping"),
        ("clipped_before_unscale", "clip-before-unscale"),
        ("gradients_kept", "gradient-cleared"),
        ("nan_applied", "gradient-finite"),
        ("weights_overflow", "gradient-finite"),
        ("labels_all_masked", "loss-finite"),
        ("labels_all_masked", "labels-masked"),
        ("encoder_overflow", "loss-finite"),
        ("padded_with_text", "labels-padding"),
        ("learning_rate_zero", "learning-rate"),
        ("learning_rate_zero", "proof-short"),
        ("complex_weights_at_rate_zero", "learning-rate"),
        ("wrong_adapter_active", "adapter-gradient"),
        ("forgotten_by_optimizer", "optimizer-parameters"),
        ("adapter_frozen", "trainable-set"),
        ("pure_fp16", "autocast"),
    ],
)
def test_a_faulty_variant_of_a_healthy_script_is_an_error(name, check, prove):
    report = prove(SCRIPTS / "faults" / f"{name}.py")
    assert check in {finding.check for finding in report.report.errors}, report.findings


@pytest.mark.parametrize(
    ("name", "check", "severity"),
    [
        ("group_relative_rewards", "loss-zero", "info"),
        ("satisfied_margins", "loss-zero", "info"),
        ("equal_rewards", "loss-zero", "info"),
        ("preferences_at_a_low_rate", "loss-constant", "warning"),
        ("low_scale", "scaler-trajectory", "info"),
        ("scale_below_one", "scaler-trajectory", "info"),
        ("tiny_limit", "gradient-clipping", "info"),
        ("limit_carries_the_scale", "clip-before-unscale", "warning"),
        ("complex_weights", "adapter-gradient", "info"),
        ("complex_weights", "adapter-moves", "info"),
        ("sparse_embeddings", "adapter-gradient", "info"),
        ("negative_loss", "loss-finite", "info"),
        ("one_batch_overflows", "loss-finite", "warning"),
        ("constant_without_gradient", "loss-finite", "warning"),
        ("probed_first", "adapter-moves", "warning"),
        ("prompt_outside_the_model", "trainable-set", "warning"),
        ("unrouted_expert", "adapter-gradient", "warning"),
        ("two_sequences_of_one_length", "labels-padding", "warning"),
        ("averages_that_move", "average-moves", "info"),
        ("copies_that_rest", "average-moves", "info"),
    ],
)
def test_one_signal_alone_is_a_warning_at_most(name, check, severity, prove):
    report = prove(SCRIPTS / "healthy" / f"{name}.py")
    assert {one.severity.value for one in report.findings if one.check == check} == {severity}, report.findings


@pytest.mark.parametrize("name", ["rate_of_its_own", "own_optimizer"])
def test_a_rate_that_cannot_be_read_is_not_called_zero(name, prove):
    report = prove(SCRIPTS / "healthy" / f"{name}.py")
    assert [step.learning_rate for step in report.steps] == [None] * len(report.steps)
    assert "learning-rate" in {unseen.check for unseen in report.unseen}


def test_a_schedule_that_counts_skipped_steps_is_named_with_its_line_and_the_condition(prove):
    script = SCRIPTS / "faults" / "schedule_on_skipped.py"
    report = prove(script)
    [finding] = [finding for finding in report.findings if finding.check == "scheduler-skipped-step"]
    line = 1 + script.read_text().splitlines().index("    schedule.step()")
    assert finding.where.rpartition("/")[2] == f"schedule_on_skipped.py:{line}"
    assert "if scaler.get_scale() >= scale_before:" in finding.hint
    assert "if not accelerator.optimizer_step_was_skipped:" in finding.hint


def test_a_schedule_that_waits_for_applied_steps_is_not_reported(prove):
    report = prove(SCRIPTS / "healthy" / "schedule_waits.py")
    assert report.skipped >= 1
    assert "scheduler-skipped-step" not in {finding.check for finding in report.findings}


def test_an_infinite_norm_is_reported_if_clipping_by_it_set_gradients_to_0(prove):
    report = prove(SCRIPTS / "faults" / "norm_overflows.py")
    [message] = [finding.message for finding in report.findings if finding.check == "gradient-clipping"]
    assert message == "the norm of the gradients is inf, and clipping by it sets all of them to 0"


@pytest.mark.parametrize("name", ["first_steps_overflow", "fused_adam"])
def test_a_falling_loss_scale_is_recorded_step_by_step(name, prove):
    report = prove(SCRIPTS / "healthy" / f"{name}.py")
    assert report.skipped >= 1
    assert report.steps[0].scale == 2.0**24
    assert report.steps[-1].scale < 2.0**24
    assert [step.applied for step in report.steps[-2:]] == [True, True]


def test_the_gradients_of_a_closure_belong_to_its_step(prove):
    steps = prove(SCRIPTS / "healthy" / "closure.py").steps
    assert len({step.grad_norm for step in steps}) == len(steps) >= 2


def test_requested_adapters_are_distinguished_from_others(prove):
    report = prove(SCRIPTS / "faults" / "two_adapters.py", adapters=("speech",))
    finding = next(finding for finding in report.report.errors if finding.check == "trainable-set")
    assert "vision" in finding.message
    assert "speech" not in finding.message


def test_what_could_not_be_observed_is_not_checked_with_its_reason(prove):
    report = prove(SCRIPTS / "healthy" / "distillation.py")
    reasons = {unseen.check: unseen.reason for unseen in report.unseen}
    assert "labels" in reasons["labels-padding"]
    assert {"resume-probe", "loss-agreement", "longest-batch"} <= set(reasons)


def test_steps_time_and_memory_are_measured(prove):
    report = prove(SCRIPTS / "healthy" / "lora_loop.py", run_steps=1000)
    assert 0 < report.step_seconds < 10
    assert report.eta_s == pytest.approx(1000 * report.step_seconds)
    assert report.peak_bytes > 50 * 2**20
    assert {row.kind for row in report.dtypes} == {"trainable", "frozen", "state"}


def test_a_command_that_does_not_use_the_hosts_card_is_an_error(prove):
    report = prove(SCRIPTS / "healthy" / "lora_loop.py", card_seen=True)
    assert [finding.check for finding in report.report.errors] == ["device"]


def test_a_proof_on_the_cpu_instead_of_a_card_is_reported(prove):
    report = prove(SCRIPTS / "healthy" / "lora_loop.py")
    assert "simulates a card of capability 7.5" in next(one.reason for one in report.unseen if one.check == "device")


@pytest.mark.parametrize("name", ["card_only_autocast", "accelerated_on_cpu"])
def test_settings_that_are_enabled_only_on_a_card_are_not_judged_on_a_cpu(name, prove):
    report = prove(SCRIPTS / "healthy" / f"{name}.py")
    assert {"autocast", "scaler"} <= {unseen.check for unseen in report.unseen}
    assert not {"autocast", "scaler"} & {finding.check for finding in report.findings}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("step_beside_scaler", "optimizer.step() applies gradients that still contain the loss scale"),
        ("backward_not_scaled", "1024 times too small"),
        ("every_second_micro_step_scaled", "some backward passes of a step begin at a scaled loss"),
    ],
)
def test_a_loss_scale_that_is_not_divided_out_is_reported_with_its_cause(name, words, prove):
    report = prove(SCRIPTS / "faults" / f"{name}.py")
    [message] = [finding.message for finding in report.report.errors]
    assert words in message


def test_a_loss_scale_that_is_divided_out_is_recognised(prove):
    report = prove(SCRIPTS / "healthy" / "scaled_in_many_ways.py")
    assert {"gradient-scale", "clip-before-unscale"} <= {finding.check for finding in report.findings}


def test_frozen_tensors_in_an_optimizer_are_not_reported_as_trained(prove):
    report = prove(SCRIPTS / "healthy" / "frozen_adapter_in_optimizer.py")
    found = {finding.check: finding for finding in report.findings}
    assert found["adapter-gradient"].message == "all 4 trained tensors got gradients"
    assert found["adapter-gradient"].severity is Severity.INFO


@pytest.mark.parametrize("name", ["looked_ahead", "critic_first", "accumulation"])
def test_gradients_that_are_cleared_by_design_are_not_reported_as_lost(name, prove):
    report = prove(SCRIPTS / "healthy" / f"{name}.py")
    assert "gradient-cleared" not in {finding.check for finding in report.findings}


def test_float32_copies_of_float16_weights_are_recognised_as_the_trained_tensors(prove):
    report = prove(SCRIPTS / "healthy" / "master_weights.py")
    found = {finding.check: finding.message for finding in report.findings}
    assert found["trainable-dtype"] == "4 trained tensors are float16, and the optimizer updates float32 copies of them"
    assert found["optimizer-parameters"] == "the optimizer holds float32 copies of 4 trained tensors"
    assert "gradient-clipping" not in {one.check for one in report.findings if one.severity is not Severity.INFO}


def test_labels_that_are_not_input_tokens_are_not_checked_for_the_prompt(prove):
    report = prove(SCRIPTS / "healthy" / "classification.py")
    assert [one.reason for one in report.unseen if one.check == "labels-prompt"] != []
    assert "labels-prompt" not in {finding.check for finding in report.findings}


@pytest.mark.parametrize(("name", "severity"), [("autocast_off", "warning"), ("autocast_left_out", "error")])
def test_pure_float16_is_rejected_if_nothing_can_enable_autocast_on_a_card(name, severity, prove):
    report = prove(SCRIPTS / "faults" / f"{name}.py")
    [finding] = [finding for finding in report.findings if finding.check == "autocast"]
    assert finding.severity.value == severity
