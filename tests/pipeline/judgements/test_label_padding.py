"""The edits of label-padding are reverted if they put -100 into a loss that does not ignore it."""

from __future__ import annotations

from fixers.frame.change import FileChange
from pipeline.diagnosis.cures import next_cure
from pipeline.judgements.label_padding import is_suspected, with_padding_errors
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity

SEEN = (
    Finding("labels-masked", Severity.INFO, "60% of all labels contribute to the loss"),
    Finding("labels-ignored", Severity.WARNING, "48 of 192 targets of mse_loss are -100"),
)
EDIT = FileChange("data.py", b"a", b"b", {"label-padding": 4}, ("line 7: a reason (label-padding)",))
OTHER = FileChange("train.py", b"a", b"b", {"loss-fp32": 1}, ("line 3: a reason (loss-fp32)",))


def test_the_finding_names_the_fixer_its_edited_lines_and_the_command_to_type():
    assert is_suspected(SEEN)
    well, error = with_padding_errors(SEEN, (EDIT, OTHER))
    assert well == SEEN[0]
    assert (error.severity, error.exit_code, error.where) == (Severity.ERROR, ExitCode.PRECISION, "data.py:7")
    assert error.hint == "pipeline run --set fixers.label-padding=never"


def test_a_project_whose_own_targets_are_minus_100_gets_only_a_warning():
    assert with_padding_errors(SEEN, (OTHER,)) == SEEN
    assert not is_suspected((Finding("labels-ignored", Severity.INFO, "none"),))


def test_run_reverts_the_edits_once():
    cure = next_cure([], with_padding_errors(SEEN, (EDIT,)), {})
    assert cure is not None
    assert cure.overrides == {"fixers.label-padding": "never"}
    assert next_cure([cure.name], with_padding_errors(SEEN, (EDIT,)), {}) is None
    assert next_cure([], with_padding_errors(SEEN, (EDIT,)), {"fixers": {"label-padding": "never"}}) is None
