"""Configs: all problems are reported at once, with file, line and key path. Case ids are those of the fault list."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.load import load_config
from tests.pipeline.config.config_files import GOOD, problem_text, problems, write

HUB_TOKEN = "hf_" + "a1B2" * 8


def test_a_yaml_file_of_another_program_is_one_problem(tmp_path: Path) -> None:
    text = "model: {width: 64, depth: 4}\nepochs: 3\noptim: adamw\nseed: 1\ntrain: {steps: 9}\n"
    [found] = problems(tmp_path, write(tmp_path, text).stem)
    assert "is not a halfstep config" in found.message and "did you mean" not in found.message


@pytest.mark.parametrize(
    ("case", "text", "words"),
    [
        ("BI-01 empty", "", ["file is empty", "mine.yaml"]),
        ("BI-01 only a comment", "# nothing\n", ["file is empty"]),
        ("BI-02 syntax", "a: [1, 2\nb: 3\n", ["mine.yaml:2", "b: 3"]),
        ("BI-03 tab", "train:\n\tepochs: 3\n", ["tab", "mine.yaml:2"]),
        ("BI-04 duplicate", GOOD + "project: ..\n", ["written twice", "1 and 4"]),
        (
            "BI-05 unknown key",
            GOOD + "train: {lerning_rate: 1}\n",
            ["train.lerning_rate", "did you mean learning_rate"],
        ),
        ("BI-06 wrong type", GOOD + 'train: {epochs: "22a"}\n', ["train.epochs", "integer", "'22a'"]),
        ("BI-07 norway", GOOD + "precision: no\n", ["precision"]),
        ("BI-07 norway in a string", GOOD + "env: {COUNTRY: no}\n", ["env.COUNTRY", "boolean", "quote it"]),
        ("BI-08 tag", "a: !!python/object/apply:os.system ['touch canary']\n", ["not allowed"]),
        ("BI-12 nan", GOOD + "train: {learning_rate: .nan}\n", ["train.learning_rate", "finite"]),
        ("BI-12 infinite", GOOD + "train: {learning_rate: .inf}\n", ["finite"]),
        ("BI-12 1e400", GOOD + "train: {learning_rate: 1e400}\n", ["finite"]),
        ("BI-13 zero", GOOD + "train: {batch_size: 0}\n", ["train.batch_size", "greater than 0"]),
        ("BI-13 negative", GOOD + "train: {max_steps: -5}\n", ["train.max_steps"]),
        ("BI-13 huge", GOOD + "train: {batch_size: 1000000000000}\n", ["train.batch_size"]),
        ("BI-14 no checkpoint", GOOD + "train: {save_steps: 50, max_steps: 10}\n", ["no checkpoint would be written"]),
        ("sharded, evaluated", GOOD + "train: {shard_base: true}\n", ["needs train.evaluate: false"]),
        (
            "sharded, validated",
            GOOD + "train: {shard_base: true, evaluate: false, eval_steps: 2}\n",
            ["train.shard_base", "cannot be combined with train.eval_steps"],
        ),
        (
            "sharded command",
            "project: .\ncommand: [python, -c, x]\ntrain: {shard_base: true, evaluate: false}\n",
            ["train.shard_base", "built-in trainer only"],
        ),
        ("BI-18 missing script", "project: .\ncommand: [python, src/train.py]\n", ["src/train.py", "there is no"]),
        ("BI-18 missing data", "model: {id: tiny/x}\ndata: {path: corpus}\n", ["corpus"]),
        ("BI-19 outside", "command: [python, ../../etc/train.py]\n", ["outside the project"]),
        ("BI-19 collator outside", GOOD + "fixers: {data-collator: {path: ../c.py}}\n", ["outside the project"]),
        ("not a mapping", "- 1\n- 2\n", ["key: value"]),
        ("no model", "data: {dataset: tiny-speech}\n", ["built-in trainer needs model"]),
        ("an unknown fixer", GOOD + "fixers: {tokenizr: auto}\n", ["mine.yaml:4", "fixers.tokenizr", "tokenizer?"]),
        ("off, misspelt", GOOD + "fixers: {bf16-to-fp16: of}\n", ["bf16-to-fp16: should be auto, off, never", "'of'"]),
        ("an unknown value", GOOD + "fixers: {port: maybe}\n", ["should be auto, off, never, got 'maybe'"]),
        ("on is not auto", GOOD + "fixers: {port: on}\n", ["got True", "fixers: {port: auto}"]),
        ("no value", GOOD + "fixers: {port: }\n", ["fixers.port", "got no value"]),
        ("no variable", GOOD + "env: {MODE: }\n", ["env.MODE: should be string, got no value", 'MODE: ""']),
        ("an unknown setting", GOOD + "fixers: {data-collator: {pth: x}}\n", ["data-collator.pth", "path?"]),
        ("settings of none", GOOD + "fixers: {port: {number: 3}}\n", ["port has no settings"]),
        ("a setting's type", GOOD + "fixers: {tokenizer: {folders: a}}\n", ["tokenizer.folders: should be a list"]),
        ("a token", GOOD + "env: {HF_TOKEN: hf_abc}\n", ["mine.yaml:4", "env.HF_TOKEN", "secrets: [HF_TOKEN]"]),
        ("a key", GOOD + "env: {WANDB_API_KEY: 0123abcd}\n", ["env.WANDB_API_KEY", "secrets: [WANDB_API_KEY]"]),
        ("a password", GOOD + "env: {DB_PASSWORD: hunter2}\n", ["env.DB_PASSWORD", "name is that of a secret"]),
        ("a value", GOOD + f"env: {{MINE: {HUB_TOKEN}}}\n", ["env.MINE", "its value looks like a secret"]),
        ("in a URL", GOOD + "env: {INDEX: 'https://me:pw@lab/x'}\n", ["env.INDEX", "looks like a secret"]),
        ("a secret for a name", GOOD + f"secrets: [{HUB_TOKEN}]\n", ["secrets: contains a secret itself"]),
        (
            "in the command",
            f"command: [look, --token, {HUB_TOKEN}]\n",
            ["command: one of its words looks like a secret"],
        ),
        (
            "a password in an index",
            GOOD + "fixers: {environment: {index: 'https://me:pw1@lab/simple'}}\n",
            ["mine.yaml:4", "fixers.environment.index: its value looks like a secret", "~/.netrc"],
        ),
        (
            "a token in an index",
            GOOD + "fixers: {environment: {torch: '2.9.1', find_links: 'https://t0k3n@lab/simple'}}\n",
            ["fixers.environment.find_links: its value looks like a secret"],
        ),
        ("a token in a command", GOOD + f"notify: curl -d token={HUB_TOKEN} lab\n", ["notify: its value looks like"]),
        (
            "a token in a list",
            GOOD + f"slurm: {{extra: [--comment={HUB_TOKEN}]}}\n",
            ["slurm.extra.0: its value looks like a secret"],
        ),
        ("a missing script in a line", "command: python src/train.py -v\n", ["src/train.py", "there is no"]),
        ("an open quote", 'command: "python \'x"\n', ["command: cannot be split into words: No closing quotation"]),
        ("a shell operator", "command: cd src && python x.py\n", ["command: has the shell operator &&", "[bash, -c,"]),
        (
            "a variable before the program",
            "command: OMP_NUM_THREADS=8 A='b c' python x.py --lr 1\nenv: {X: y}\n",
            [
                "mine.yaml:1",
                "command: begins with variables (OMP_NUM_THREADS, A), but no shell starts the command",
                'env: {X: "y", OMP_NUM_THREADS: "8", A: "b c"} and command: [python, x.py, --lr, "1"]',
            ],
        ),
        (
            "a secret variable before the program",
            "command: [HF_TOKEN=0123abcd, python, x.py]\n",
            ["command: begins with variables (HF_TOKEN)", "secrets: [HF_TOKEN] and command: [python, x.py]"],
        ),
        ("a word for a list", GOOD + "secrets: HF_TOKEN\n", ["should be a list", "secrets: [HF_TOKEN]"]),
        ("a word for a section", "model: tiny\n", ["keys and values (id, revision,", "model: {id: tiny}"]),
        ("a number for a text", GOOD + "env: {A: 1}\n", ["env.A", 'A: "1"']),
        (
            "a slip",
            GOOD + "fixers: {environment: {torch: v2.13}}\n",
            ["environment.torch: 'v2.13' is", 'torch: "2.13"'],
        ),
        ("a lost zero", GOOD + "fixers: {environment: {torch: 2.10}}\n", ["drops trailing zeros", 'torch: "2.10"']),
        ("another package", GOOD + "fixers: {environment: {torch: numpy}}\n", ["'numpy' is neither a version"]),
        ("SE-18 seed", GOOD + f"train: {{seed: {'9' * 200_000}}}\n", ["mine.yaml:4", "a number has 200000 digits"]),
        ("SE-18 hex", GOOD + f"lora: {{r: 0x{'f' * 9000}}}\n", ["mine.yaml:4", "a number has 9002 digits"]),
        ("SE-19 NUL value", GOOD + 'env: {A: "x\\0y"}\n', ["mine.yaml:4", "env.A", "must not contain a NUL"]),
        ("SE-19 assignment", GOOD + "env: {A=B: c}\n", ["mine.yaml:4", "env.A=B", "without `=`"]),
        ("SE-19 no name", GOOD + 'env: {"": c}\n', ["mine.yaml:4", "name of an environment variable"]),
        ("SE-19 NUL name", GOOD + 'env: {"A\\0": c}\n', ["mine.yaml:4", "must not contain a NUL"]),
        ("SE-19 NUL argument", 'command: [run.sh, "a\\0"]\n', ["command.1", "must not contain a NUL"]),
        ("unknown data set", "model: {id: tiny/x}\ndata: {dataset: tinyspeech}\n", ["neither a hub dataset"]),
    ],
)
def test_a_bad_config_names_place_and_reason(tmp_path: Path, case: str, text: str, words: list[str]) -> None:
    write(tmp_path, text)
    text_of_problems = problem_text(tmp_path)
    for word in words:
        assert word in text_of_problems, f"{case}: {word!r} not in {text_of_problems!r}"


@pytest.mark.parametrize(
    "text",
    [
        "fixers: {bf16-to-fp16: off, tokenizer: never, port: auto, scaler-gate: 'off'}\n",
        "fixers: {environment: create}\n",
        "fixers: {environment: {base: python3.11, torch: 2.8, requirements: [r.txt], no_index: true}}\n",
        "fixers: {environment: {torch: '>=2.4,<2.14'}}\n",
        "fixers: {environment: {torch: 2.13.0}}\n",
        "fixers: {environment: {torch: torch==2.13.0+cu126}}\n",
        "fixers: {tokenizer: {repo: a/b, revision: x, source: mirror, folders: [m]}}\n",
        "env: {TOKENIZERS_PARALLELISM: 'false', HF_TOKEN: $MY_TOKEN, HF_HUB_DISABLE_IMPLICIT_TOKEN: '1'}\n",
        "env: {AUDIO_TOKEN: '<|audio|>', HF_TOKEN_PATH: /data/token, MAX_NEW_TOKENS: '512', HF_HOME: ~/hf}\n",
        "env: {MIRROR: 'https://lab.example:8080/simple', COMMIT: 0a1b2c3d4e5f0a1b2c3d4e5f0a1b2c3d4e5f0a1b}\n",
    ],
)
def test_a_valid_config_is_loaded(tmp_path: Path, text: str) -> None:
    write(tmp_path, GOOD + text)
    assert load_config("mine", tmp_path).path.stem == "mine"


def test_a_secret_that_is_refused_is_not_repeated(tmp_path: Path) -> None:
    for command in ("look", f"MINE={HUB_TOKEN} PASSWORD=hunter2 A=1 look", f"A=1 look --token {HUB_TOKEN}"):
        write(tmp_path, f"command: {command}\nenv: {{MINE: {HUB_TOKEN}, PASSWORD: hunter2}}\n")
        assert HUB_TOKEN not in problem_text(tmp_path)
        assert "hunter2" not in problem_text(tmp_path)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "train: {epochs: x, batch_size: 0}\nlorra: {}\n")
    assert len(problems(tmp_path)) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("train: {fp16: true, bf16: true}\n", ["train.fp16: unknown key", "train.bf16: unknown key", "mine.yaml:4"]),
        ("fp16: true\nbf16: true\n", ["fp16: unknown key", "bf16: unknown key", "precision"]),
        ("precision: [fp16-mixed, bf16]\n", ["precision: should be", "'fp16-mixed'", "got ['fp16-mixed', 'bf16']"]),
        ("precision: fp16-mixed\nprecision: bf16\n", ["precision: written twice, in lines 4 and 5"]),
    ],
)
def test_BI_17_two_precisions_cannot_be_requested(tmp_path: Path, text: str, words: list[str]) -> None:
    write(tmp_path, GOOD + text)
    text_of_problems = problem_text(tmp_path)
    for word in words:
        assert word in text_of_problems, text_of_problems


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("train: {scheduler: cosin}\n", "scheduler: cosine"),
        ("train: {scheduler: liner}\n", "scheduler: linear"),
        ("precision: fp16_mixed\n", "precision: fp16-mixed"),
        ("train: {scheduler: bogus}\n", ""),
    ],
)
def test_the_hint_for_an_unknown_choice_is_the_nearest_one(tmp_path: Path, text: str, hint: str) -> None:
    write(tmp_path, GOOD + text)
    [problem] = problems(tmp_path)
    assert "should be 'linear', 'cosine'" in problem.message or "'fp16-mixed'" in problem.message
    assert problem.hint == hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("train: {early_stop: 2}\n", "train.early_stop: needs train.eval_steps"),
        ("train: {eval_steps: 5}\n", "train.eval_steps: needs data.validation_split"),
        ("train: {best_metric: mdd/per}\n", "train.best_metric: needs train.eval_steps"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(tmp_path: Path, text: str, words: str) -> None:
    write(tmp_path, GOOD + text)
    assert words in problem_text(tmp_path)


def test_an_unknown_metric_is_refused_with_the_nearest_one_of_the_tasks(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "train: {eval_steps: 5, best_metric: mdd/f2}\n")
    held_out = "data.validation_split=test"
    [problem] = problems(tmp_path, overrides=(held_out,))
    assert problem.message == "train.best_metric: unknown metric 'mdd/f2' of the tasks in data.tasks"
    assert problem.hint == "best_metric: mdd/f1"
    assert load_config("mine", tmp_path, (held_out, "train.best_metric=mdd/f1")).config.train.best_metric == "mdd/f1"
    other_task = problem_text(tmp_path, overrides=(held_out, "train.best_metric=mdd/f1", "data.tasks=[apa]"))
    assert "unknown metric 'mdd/f1'" in other_task


def test_a_shortest_duration_above_the_longest_is_refused(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    [problem] = problems(tmp_path, overrides=("data.min_seconds=50",))
    assert problem.message == "data.min_seconds: 50 is more than max_seconds (30)"


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ("[apaa]", "did you mean apa?"),
        ("[asr, word]", "did you mean words?"),
        ("[]", "is empty"),
        ("[messages, words, mdd]", ""),
    ],
)
def test_a_task_is_built_in_or_has_a_template(tmp_path: Path, tasks: str, words: str) -> None:
    templates = "{words: {prompt: 'Write.', target: '{text}'}}"
    text = (
        f"model: {{id: tiny/phi4-multimodal}}\ndata: {{dataset: tiny-speech, tasks: {tasks}, templates: {templates}}}\n"
    )
    write(tmp_path, text)
    if not words:
        assert load_config("mine", tmp_path).config.data.templates["words"].target == "{text}"
    else:
        assert words in problem_text(tmp_path)


def test_the_hint_for_a_number_among_words_quotes_it_as_a_string(tmp_path: Path) -> None:
    write(tmp_path, "project: .\ncommand: [torchrun, --nproc-per-node, 2, train.py]\n")
    assert [(one.message.partition(":")[0], one.hint) for one in problems(tmp_path)] == [("command.2", '"2"')]


@pytest.mark.parametrize(
    ("model", "lora", "words"),
    [
        ("", "{parts: []}", "lora.parts: is empty: no layer would get an adapter"),
        ("", "{targets: []}", "lora.targets: is empty: no layer would get an adapter"),
        ("", "{parts: [decoder, encodr]}", "encoder"),
        ("", "{use_dora: 1}", "lora.use_dora"),
        (", quantization: nf5", "{}", "nf4"),
        (", adapter: speech", "{use_dora: true}", "has no effect: model.adapter continues speech"),
        (", adapter: speech", "{r: 8}", ""),
        (", quantization: nf4", "{parts: [projector, encoder], modules_to_save: [lm_head], use_rslora: true}", ""),
    ],
)
def test_settings_of_lora_that_train_nothing_or_have_no_effect_are_refused(
    tmp_path: Path, model: str, lora: str, words: str
) -> None:
    write(tmp_path, f"model: {{id: tiny/voxtral{model}}}\nlora: {lora}\ndata: {{dataset: tiny-speech}}\n")
    if words:
        assert words in problem_text(tmp_path)
    else:
        load_config("mine", tmp_path)


@pytest.mark.parametrize(
    ("model", "lora", "words"),
    [(", quantization: nf4", "{}", "model.quantization"), ("", "{use_dora: true}", "lora.use_dora")],
)
def test_a_sharded_base_excludes_nf4_and_dora(tmp_path: Path, model: str, lora: str, words: str) -> None:
    train = "{shard_base: true, evaluate: false}"
    text = f"model: {{id: tiny/voxtral{model}}}\nlora: {lora}\ntrain: {train}\nprocesses: 2\n"
    write(tmp_path, f"{text}data: {{dataset: tiny-speech}}\n")
    assert f"train.shard_base: cannot be combined with {words}" in problem_text(tmp_path)
