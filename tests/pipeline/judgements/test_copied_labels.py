"""A finding of learnt padding names the lines that copy the input ids into the labels."""

from __future__ import annotations

import time

import pytest

from fixers.sources.syntax import parse_python
from pipeline.judgements.copied_labels import _lines, copied_labels, with_copied_labels
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


def test_nested_functions_and_those_side_by_side_mask_their_own_lines() -> None:
    copy = "labels = input_ids"
    text = (
        f"def outer():\n  def masks():\n    {copy}; x = -100\n  def inner():\n    {copy}\n"
        f"def copies():\n  {copy}\n{copy}\nx = -100\ndef masks(): {copy}; x = -100\n{copy}\n"
    )
    assert copied_labels(Files({"train.py": text}), ("python", "train.py")) == [f"train.py:{n}" for n in (7, 8, 11)]


@pytest.mark.parametrize(
    "text",
    ["def f():\n 100\n" * 8000 + "labels = input_ids\n", "def f(): 100\n" * 4000 + "labels = input_ids\n" * 4000],
    ids=["functions and masks", "functions and labels"],
)
def test_SE_functions_are_not_compared_with_each_mask_and_each_label(text: str) -> None:
    module = parse_python(text.encode())
    began = time.process_time()
    assert len(list(_lines(module))) == text.count("labels")
    assert time.process_time() - began < 2
