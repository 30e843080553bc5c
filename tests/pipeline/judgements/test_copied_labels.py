"""A finding of learnt padding names the lines that copy the input ids into the labels."""

from __future__ import annotations

import pytest

from pipeline.judgements.copied_labels import copied_labels, with_copied_labels
from remote.protocol.findings import Finding, Severity
from tests.pipeline.judgements.test_laptop_paths import Files

LEARNT = Finding("labels-padding", Severity.ERROR, "40 padding positions are learnt", hint="pad labels with -100")


def test_a_finding_of_learnt_padding_names_the_line_in_the_module_that_the_command_imports() -> None:
    copies = "import copy\ndef encode(result):\n    result['labels'] = copy.deepcopy(result['input_ids'])\n"
    files = {"train.py": "import data_prep\n", "data_prep.py": copies, "unused.py": copies}
    others = (Finding("labels-padding", Severity.INFO, "no"), Finding("labels-prompt", Severity.WARNING, "equal"))
    found = with_copied_labels((LEARNT, *others), Files(files), ("python", "train.py"))
    assert [one.where for one in found] == ["data_prep.py:3", "", ""] and found[1:] == others
    assert with_copied_labels((LEARNT,), Files(files), ()) == (LEARNT,)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("batch['labels'] = batch['input_ids'].clone()", True),
        ("batch.labels = list(batch.input_ids)", True),
        ("labels = input_ids[:]", True),
        ("row = {'labels': torch.tensor(input_ids)}", True),
        ("loss = model(input_ids=input_ids, labels=input_ids).loss", True),
        ("labels = [t if m else -100 for t, m in zip(input_ids, mask)]", False),
        ("labels = input_ids.clone(); labels[labels == pad] = -100", False),
        ("labels = input_ids.clone(); labels[labels == pad] = IGNORE_INDEX", False),
        ("labels = encode(targets)", False),
        ("labels = shift(input_ids)", False),
        ("loss = model(input_ids=input_ids, labels=labels)", False),
    ],
)
def test_only_copies_of_the_input_ids_without_a_mask_are_named(line: str, found: bool) -> None:
    text = f"def step(model, batch, input_ids, labels, mask, pad):\n    {line}\n"
    assert copied_labels(Files({"train.py": text}), ("python", "train.py")) == (["train.py:2"] if found else [])
