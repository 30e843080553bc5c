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
