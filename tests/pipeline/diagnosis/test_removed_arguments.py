"""The catalog explains arguments that transformers and TRL removed, as the fixer trainer-arguments does."""

from __future__ import annotations

import pytest

from fixers.code.trainer_arguments import rewrite
from fixers.frame.target import Target
from fixers.sources.source import Source
from fixers.sources.trainer_names import ARGUMENTS, TRAIN, TRL_ARGUMENTS
from pipeline.diagnosis.diagnose import diagnose_text

LOG = """Traceback (most recent call last):
  File "/home/me/halfstep/projects/w-7eed8d84/runs/r/code/train.py", line 8, in <module>
    model = WhisperForConditionalGeneration.from_pretrained("base", {name}=True)
TypeError: {owner} got an unexpected keyword argument '{name}'
"""
OWNERS = (
    *((name, "TrainingArguments.__init__()") for name in ARGUMENTS),
    *((name, "SpeechTrainingArguments.__init__()") for name in ("no_cuda", "evaluation_strategy")),
    *((name, "DPOConfig.__init__()") for name in TRL_ARGUMENTS),
    *((name, "Seq2SeqTrainer.train()") for name in TRAIN),
)


@pytest.mark.parametrize(("name", "owner"), OWNERS)
def test_every_argument_that_the_fixer_knows_is_explained_when_a_library_rejects_it(name: str, owner: str) -> None:
    [finding] = diagnose_text(LOG.format(name=name, owner=owner))
    assert finding.check == "api-evalstrategy"
    assert finding.message.endswith(f": {name}")


@pytest.mark.parametrize("name", ["load_in_8bit", "load_in_4bit"])
@pytest.mark.parametrize("model", ["WhisperForConditionalGeneration", "T5ForConditionalGeneration"])
def test_quantising_arguments_have_the_cure_of_the_warning_of_plan(name: str, model: str) -> None:
    code = f'import transformers\ntransformers.{model}.from_pretrained("base", {name}=True)\n'
    [warned] = rewrite(Source("train.py", code.encode()), Target(packages={"transformers": "5.1.0"})).findings
    [finding] = diagnose_text(LOG.format(name=name, owner=f"{model}.__init__()"))
    assert (finding.check, finding.message.endswith(f": {name}")) == ("api-load-in-bits", True)
    assert warned.hint.partition("load_in")[0] in finding.hint
    assert f"{name}=True" in finding.hint


CONDITIONS = (
    ("load_in_8bit=args.use_8bit", "BitsAndBytesConfig(load_in_8bit=args.use_8bit) if args.use_8bit else None"),
    ("load_in_4bit=a if b else c", "BitsAndBytesConfig(load_in_4bit=(a if b else c)) if (a if b else c) else None"),
    ("load_in_8bit=x, load_in_4bit=y", "BitsAndBytesConfig(load_in_8bit=x, load_in_4bit=y) if x or y else None"),
    ("load_in_8bit=False, load_in_4bit=y", "BitsAndBytesConfig(load_in_4bit=y) if y else None"),
    ("load_in_8bit=False", "remove it"),
    ("load_in_8bit=args.use_8bit, quantization_config=bits", "remove it"),
)


@pytest.mark.parametrize(("options", "hint"), CONDITIONS)
def test_the_hint_keeps_the_value_of_a_quantising_argument(options: str, hint: str) -> None:
    code = f'import transformers\ntransformers.WhisperModel.from_pretrained("base", {options})\n'
    findings = rewrite(Source("train.py", code.encode()), Target(packages={"transformers": "5.1.0"})).findings
    assert findings
    assert all(hint in each.hint for each in findings)


def test_the_catalog_keeps_a_variable_as_the_condition() -> None:
    [finding] = diagnose_text(LOG.format(name="load_in_8bit", owner="WhisperForConditionalGeneration.__init__()"))
    assert "BitsAndBytesConfig(load_in_8bit=True) if args.use_8bit else None" in finding.hint


@pytest.mark.parametrize(
    ("error", "check", "hint"),
    [
        ("ModuleNotFoundError: No module named 'pkg_resources'", "pkg-resources-missing", "setuptools<81"),
        ("ModuleNotFoundError: Requirement 'neptune' not met. HINT: pip", "module-missing", "requirements.txt"),
        (
            "AttributeError: 'HubertForCTC' object has no attribute 'freeze_feature_extractor'",
            "api-freeze-extractor",
            "freeze_feature_encoder",
        ),
        (
            "RuntimeError: You set `ignore_mismatched_sizes` to `False`, thus raising an error.",
            "mismatched-sizes",
            "ignore_mismatched_sizes=True",
        ),
    ],
)
def test_common_errors_of_libraries_have_a_cause_and_a_hint(error: str, check: str, hint: str) -> None:
    [finding] = diagnose_text(
        f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\n{error}\n'
    )
    assert (finding.check, hint in finding.hint) == (check, True)


@pytest.mark.parametrize("name", ["use_flash_attention_2", "use_auth_token"])
def test_other_removed_arguments_of_from_pretrained_have_their_new_name(name: str) -> None:
    [finding] = diagnose_text(LOG.format(name=name, owner="Qwen2AudioForConditionalGeneration.__init__()"))
    assert finding.check == "api-load-arguments"
    assert f"instead of {name}, pass" in finding.hint.lower()


def test_an_argument_of_the_project_s_own_class_is_still_unrecognised() -> None:
    [finding] = diagnose_text(LOG.format(name="width", owner="Encoder.__init__()"))
    assert finding.check == "unknown-error"


def test_the_hint_says_that_an_argument_may_have_been_removed() -> None:
    [finding] = diagnose_text(LOG.format(name="logging_dir", owner="TrainingArguments.__init__()"))
    assert "delete it if the installed version removed it, such as logging_dir" in finding.hint
