"""Which files of a project may start its training."""

from __future__ import annotations

import ast

import pytest

from fixers.sources.syntax import parse_python
from pipeline.config.draft import guess_project

TRAIN = ("src/train.py", b"if __name__ == '__main__':\n    loss.backward()\n    optimizer.step()\n")
SCRIPT = b"trainer = Trainer(model)\nif __name__ == '__main__':\n    trainer.train()\n"


@pytest.mark.parametrize(
    ("source", "read"),
    [(b"a()\n" * 1000, 0), (b"a()\n" * 1000 + b"model.fit()\n", 1), (TRAIN[1] + b"a()\n" * 200_000, 0)],
)
def test_SE_12_a_tree_is_built_only_of_small_files_that_may_train(
    monkeypatch: pytest.MonkeyPatch, source: bytes, read: int
) -> None:
    parsed: list[bytes] = []

    def counted(data: bytes) -> ast.Module:
        parsed.append(data)
        return parse_python(data)

    monkeypatch.setattr("pipeline.config.candidates.parse_python", counted)
    guess = guess_project([("model.py", source)])
    assert (len(parsed), guess.scripts) == (read, ("model.py",) if TRAIN[1] in source else ())


def test_every_script_that_may_train_is_a_candidate_the_likeliest_first() -> None:
    files = [("a/train_old.py", SCRIPT), ("train.py", SCRIPT), ("plot.py", b"import pylab\n"), ("distill.py", SCRIPT)]
    more = [("tests/test_train.py", SCRIPT), ("test_train.py", SCRIPT), ("train/__init__.py", b"")]
    assert guess_project([*files, *more]).scripts == ("train.py", "a/train_old.py", "distill.py")


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        (b"size = input('size? ')", True),
        (b"key = getpass.getpass()", True),
        (b"size = Prompt.ask('size')", True),
        (b"size = click.prompt('size')", True),
        (b"size = input(", True),
        (b"# size = input('size? ')", False),
        (b"words = 'type input() here'", False),
        (b"def f(input):\n    return input(3)", False),
        (b"batch.input(3)", False),
    ],
)
def test_a_script_that_waits_for_keyboard_input_is_not_offered(line: bytes, waits: bool) -> None:
    guess = guess_project([("train.py", SCRIPT + line + b"\n")])
    assert (guess.scripts, guess.interactive) == (((), ("train.py",)) if waits else (("train.py",), ()))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("finetune.py", "trainer = Trainer(model=model)\ntrainer.train()\n"),
        ("run_ctc.py", "Trainer(model=model, args=TrainingArguments('out')).train()\n"),
        ("dpo.py", "trainer = DPOTrainer('policy')\ntrainer.train()\n"),
        ("main.py", "from engine import train_one_epoch\nif __name__ == '__main__':\n    train_one_epoch(net)\n"),
        ("lit.py", "with strategy:\n    L.Trainer(max_epochs=1).fit(net)\n"),
        ("loop.py", "for x in loader:\n    net(x).backward()\n    opt.step()\n"),
        ("cli.py", "def main():\n    loss.backward()\nfire.Fire(main)\n"),
        ("src/train.py", "from factory import run_exp\nrun_exp()\n"),
    ],
)
def test_a_training_script_is_recognised_by_its_code_and_not_by_its_name(path: str, source: str) -> None:
    assert guess_project([(path, source.encode())]).scripts == (path,)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("trainer.py", "class Loop:\n    def fit(self):\n        self.loss.backward()\n        self.opt.step()\n"),
        ("train_utils.py", "import logging\nlogging.basicConfig()\ndef train_step(net):\n    net.loss.backward()\n"),
        ("evaluate.py", "model.train(False)\nTrainer(model=model).evaluate()\n"),
        ("split.py", "from sklearn import train_test_split\na, b = train_test_split(rows)\n"),
        ("serve.py", "app = build()\nif __name__ == '__main__':\n    app.run()\n"),
        ("train/__init__.py", ""),
    ],
)
def test_a_file_that_trains_nothing_when_it_runs_is_not_offered(path: str, source: str) -> None:
    guess = guess_project([(path, source.encode()), TRAIN])
    assert guess.scripts == ("src/train.py",)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (b"t = Trainer(model=m)\nt.train()\n", True),
        (b"t: Trainer = Seq2SeqTrainer(m)\nt.train(resume_from_checkpoint=True)\n", True),
        (b"from lib import Trainer as T\nx = T(m)\nx.train()\n", True),
        (b"if (t := make_trainer(m)):\n    t.train()\n", True),
        (b"pl = lightning.Trainer()\npl.fit(m)\n", True),
        (b"t = Model()\nt.train()\n", False),
        (b"t = Trainer(model=m)\nt.evaluate()\n", False),
    ],
)
def test_a_trainer_is_found_whatever_its_variable_is_called(source: bytes, found: bool) -> None:
    assert guess_project([("start.py", source)]).scripts == (("start.py",) if found else ())
