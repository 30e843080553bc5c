"""Configs and hosts: every problem told at once, with file, line and key path. Case ids are those of the fault list."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pipeline.actions.session import load_named
from pipeline.config.document import LIMITS
from pipeline.config.find import list_configs
from pipeline.config.hosts import load_host
from pipeline.config.load import load_config
from pipeline.config.shipped import shipped_configs
from remote.errors import HalfstepError
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding

GOOD = "project: .\nmodel: {id: tiny/phi4-multimodal}\ndata: {dataset: tiny-speech}\n"
HUB_TOKEN = "hf_" + "a1B2" * 8


def write(root: Path, text: str | bytes, name: str = "mine") -> Path:
    path = root / "configs" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems(root: Path, name: str = "mine", overrides: tuple[str, ...] = ()) -> tuple[Finding, ...]:
    with pytest.raises(HalfstepError) as caught:
        load_config(name, root, overrides)
    assert caught.value.exit_code is ExitCode.USAGE
    error = caught.value
    return error.findings or (Finding("config", "error", error.message, error.where, error.hint),)  # type: ignore[arg-type]


def told(root: Path, name: str = "mine", overrides: tuple[str, ...] = ()) -> str:
    return "\n".join(f"{f.where} {f.message} {f.hint}" for f in problems(root, name, overrides))


@pytest.mark.parametrize(
    ("case", "text", "words"),
    [
        ("BI-01 empty", "", ["config is empty", "mine.yaml"]),
        ("BI-01 only a comment", "# nothing\n", ["config is empty"]),
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
        ("BI-08 tag", "a: !!python/object/apply:os.system ['touch canary']\n", ["refused"]),
        ("BI-12 nan", GOOD + "train: {learning_rate: .nan}\n", ["train.learning_rate", "finite"]),
        ("BI-12 infinite", GOOD + "train: {learning_rate: .inf}\n", ["finite"]),
        ("BI-12 1e400", GOOD + "train: {learning_rate: 1e400}\n", ["finite"]),
        ("BI-13 zero", GOOD + "train: {batch_size: 0}\n", ["train.batch_size", "greater than 0"]),
        ("BI-13 negative", GOOD + "train: {max_steps: -5}\n", ["train.max_steps"]),
        ("BI-13 huge", GOOD + "train: {batch_size: 1000000000000}\n", ["train.batch_size"]),
        ("BI-14 no checkpoint", GOOD + "train: {save_steps: 50, max_steps: 10}\n", ["no checkpoint would be written"]),
        ("BI-18 missing script", "project: .\ncommand: [python, src/train.py]\n", ["src/train.py", "there is no"]),
        ("BI-18 missing data", "model: {id: tiny/x}\ndata: {path: corpus}\n", ["corpus"]),
        ("BI-19 outside", "command: [python, ../../etc/train.py]\n", ["outside the project"]),
        ("BI-19 collator outside", GOOD + "fixers: {data-collator: {path: ../c.py}}\n", ["outside the project"]),
        ("not a mapping", "- 1\n- 2\n", ["key: value"]),
        ("no model", "data: {dataset: tiny-speech}\n", ["built-in trainer needs a model"]),
        ("a fixer nobody is", GOOD + "fixers: {tokenizr: auto}\n", ["mine.yaml:4", "fixers.tokenizr", "tokenizer?"]),
        ("off, misspelt", GOOD + "fixers: {bf16-to-fp16: of}\n", ["bf16-to-fp16: should be auto, off, never", "'of'"]),
        ("a wish that means nothing", GOOD + "fixers: {port: maybe}\n", ["should be auto, off, never, got 'maybe'"]),
        ("on is not auto", GOOD + "fixers: {port: on}\n", ["got True", "fixers: {port: auto}"]),
        ("no wish", GOOD + "fixers: {port: }\n", ["fixers.port", "got None"]),
        ("a setting nobody reads", GOOD + "fixers: {data-collator: {pth: x}}\n", ["data-collator.pth", "path?"]),
        ("settings of none", GOOD + "fixers: {port: {number: 3}}\n", ["port has no settings"]),
        ("a setting's type", GOOD + "fixers: {tokenizer: {folders: a}}\n", ["tokenizer.folders: should be a list"]),
        ("a token", GOOD + "env: {HF_TOKEN: hf_abc}\n", ["mine.yaml:4", "env.HF_TOKEN", "secrets: [HF_TOKEN]"]),
        ("a key", GOOD + "env: {WANDB_API_KEY: 0123abcd}\n", ["env.WANDB_API_KEY", "secrets: [WANDB_API_KEY]"]),
        ("a password", GOOD + "env: {DB_PASSWORD: hunter2}\n", ["env.DB_PASSWORD", "name is that of a secret"]),
        ("a value", GOOD + f"env: {{MINE: {HUB_TOKEN}}}\n", ["env.MINE", "its value looks like a secret"]),
        ("in a URL", GOOD + "env: {INDEX: 'https://me:pw@lab/x'}\n", ["env.INDEX", "looks like a secret"]),
        ("a secret for a name", GOOD + f"secrets: [{HUB_TOKEN}]\n", ["secrets: holds a secret itself"]),
        ("in the command", f"command: [look, --token, {HUB_TOKEN}]\n", ["command: a word of it looks like a secret"]),
        ("a line for a list", "command: python src/train.py -v\n", ["list", "command: [python, src/train.py, -v]"]),
        ("a word for a list", GOOD + "secrets: HF_TOKEN\n", ["should be a list", "secrets: [HF_TOKEN]"]),
        ("a word for a section", "model: tiny\n", ["keys and values (id, revision,", "model: {id: tiny}"]),
        ("a number for a text", GOOD + "env: {A: 1}\n", ["env.A", 'A: "1"']),
        ("unknown data set", "model: {id: tiny/x}\ndata: {dataset: tinyspeech}\n", ["no hub dataset"]),
    ],
)
def test_a_bad_config_names_place_and_reason(tmp_path: Path, case: str, text: str, words: list[str]) -> None:
    write(tmp_path, text)
    said = told(tmp_path)
    for word in words:
        assert word in said, f"{case}: {word!r} not in {said!r}"


@pytest.mark.parametrize(
    "text",
    [
        "fixers: {bf16-to-fp16: off, tokenizer: never, port: auto, scaler-gate: 'off'}\n",
        "fixers: {environment: create}\n",
        "fixers: {environment: {base: python3.11, torch: 2.8, requirements: [r.txt], no_index: true}}\n",
        "fixers: {tokenizer: {repo: a/b, revision: x, source: mirror, folders: [m]}}\n",
        "env: {TOKENIZERS_PARALLELISM: 'false', HF_TOKEN: $MY_TOKEN, HF_HUB_DISABLE_IMPLICIT_TOKEN: '1'}\n",
        "env: {AUDIO_TOKEN: '<|audio|>', HF_TOKEN_PATH: /data/token, MAX_NEW_TOKENS: '512', HF_HOME: ~/hf}\n",
        "env: {MIRROR: 'https://lab.example:8080/simple', COMMIT: 0a1b2c3d4e5f0a1b2c3d4e5f0a1b2c3d4e5f0a1b}\n",
    ],
)
def test_what_may_be_said_is_taken(tmp_path: Path, text: str) -> None:
    write(tmp_path, GOOD + text)
    assert load_config("mine", tmp_path).path.stem == "mine"


def test_a_secret_that_is_refused_is_not_repeated(tmp_path: Path) -> None:
    write(tmp_path, GOOD + f"env: {{MINE: {HUB_TOKEN}, PASSWORD: hunter2}}\n")
    assert HUB_TOKEN not in told(tmp_path)
    assert "hunter2" not in told(tmp_path)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "train: {epochs: x, batch_size: 0}\nlorra: {}\n")
    assert len(problems(tmp_path)) == 3


def test_BI_08_a_tag_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "a: !!python/object/apply:os.system ['touch canary']\n")
    problems(tmp_path)
    assert not (tmp_path / "canary").exists()


def test_BI_09_aliases_do_not_explode(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    write(tmp_path, "\n".join(lines))
    began = time.monotonic()
    assert "more than" in told(tmp_path) or "deep" in told(tmp_path)
    assert time.monotonic() - began < 5


def test_BI_10_a_huge_config_is_refused(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "#" * LIMITS.bytes)
    assert str(LIMITS.bytes) in told(tmp_path)


def test_BI_11_bytes_that_are_no_text_are_named_by_offset(tmp_path: Path) -> None:
    write(tmp_path, GOOD.encode() + b"env: {A: \xff}\n")
    assert f"byte {len(GOOD) + 9}" in told(tmp_path)


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf" + GOOD.encode(), GOOD.replace("\n", "\r\n").encode()])
def test_BI_11_a_byte_order_mark_and_crlf_are_read(tmp_path: Path, text: bytes) -> None:
    write(tmp_path, text)
    assert load_config("mine", tmp_path).config.data.dataset == "tiny-speech"


def test_BI_15_missing_directory_and_unreadable_are_three_messages(tmp_path: Path) -> None:
    (tmp_path / "configs" / "folder.yaml").mkdir(parents=True)
    closed = write(tmp_path, GOOD, "closed")
    closed.chmod(0)
    said = [told(tmp_path, "configs/nothing.yaml"), told(tmp_path, "configs/folder.yaml")]
    if os.getuid() != 0:
        said.append(told(tmp_path, "configs/closed.yaml"))
    assert len(set(said)) == len(said)
    assert "there is no config" in said[0]
    assert "is a directory" in said[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("train: {fp16: true, bf16: true}\n", ["train.fp16: no such key", "train.bf16: no such key", "mine.yaml:4"]),
        ("fp16: true\nbf16: true\n", ["fp16: no such key", "bf16: no such key", "precision"]),
        ("precision: [fp16-mixed, bf16]\n", ["precision: should be", "'fp16-mixed'", "got ['fp16-mixed', 'bf16']"]),
        ("precision: fp16-mixed\nprecision: bf16\n", ["precision: written twice, in lines 4 and 5"]),
    ],
)
def test_BI_17_two_precisions_cannot_be_asked_for(tmp_path: Path, text: str, words: list[str]) -> None:
    """There is one key for it; every way to name two is told as what it is."""
    write(tmp_path, GOOD + text)
    said = told(tmp_path)
    for word in words:
        assert word in said, said


@pytest.mark.parametrize("kind", ["fifo", "zero"])
def test_BI_16_what_is_not_a_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "c.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path = Path("/dev/zero")
    with pytest.raises(HalfstepError, match="not a regular file"):
        load_config(str(path) if kind == "fifo" else "/dev/zero", tmp_path)


def test_a_name_that_is_almost_right_is_named(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "paper_r65")
    with pytest.raises(HalfstepError) as caught:
        load_config("paper_r6", tmp_path)
    assert caught.value.instead == ("paper_r6", "paper_r65")


def test_the_projects_config_comes_before_the_shipped_one(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "train: {epochs: 7}\n", "tiny")
    assert load_config("tiny", tmp_path).config.train.epochs == 7


@pytest.mark.parametrize(
    ("override", "value"),
    [("train.learning_rate=1e-5", 1e-5), ("train.learning_rate=2", 2.0), ("train.learning_rate=0.1", 0.1)],
)
def test_set_overrides_a_key(tmp_path: Path, override: str, value: float) -> None:
    write(tmp_path, GOOD)
    assert load_config("mine", tmp_path, [override]).config.train.learning_rate == value


def test_set_reaches_lists_and_new_sections(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    config = load_config("mine", tmp_path, ["data.tasks=[mdd]", "lora.r=4"]).config
    assert (config.data.tasks, config.lora.r) == (("mdd",), 4)


@pytest.mark.parametrize("override", ["train.epochs", "=3", "train.epochs=[1"])
def test_a_set_that_cannot_be_meant_is_refused(tmp_path: Path, override: str) -> None:
    write(tmp_path, GOOD)
    assert "--set" in told(tmp_path, overrides=(override,))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.epoch=3", "train.epoch: no such key; did you mean epochs?"),
        ("train={epochs: x}", "train.epochs: should be"),
        ("model.revision=abc", "model.id: is needed"),
        ("fixers.port=of", "fixers.port: should be auto"),
        ("data.path=nowhere", "data.path: there is no nowhere"),
    ],
)
def test_a_problem_of_a_set_names_the_set_and_not_the_file(tmp_path: Path, override: str, words: str) -> None:
    write(tmp_path, "project: .\ncommand: [look]\n")
    (found,) = problems(tmp_path, overrides=(override,))
    assert (found.where, words in found.message) == (f"--set {override}", True), found


def test_a_problem_of_the_file_names_the_file_beside_a_set(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "lora: {r: x}\n")
    assert [found.where.rpartition(":")[2] for found in problems(tmp_path, overrides=("lora.alpha=4",))] == ["4"]


@pytest.mark.parametrize(
    ("override", "words"), [("host.prt=1", "host.prt: no such key; did you mean port?"), ("host.port=x", "host.port:")]
)
def test_a_problem_of_a_set_of_the_host_names_the_set(tmp_path: Path, override: str, words: str) -> None:
    with pytest.raises(HalfstepError) as caught:
        load_host("titan", tmp_path, [override])
    (found,) = caught.value.findings
    assert (found.where, words in found.message) == (f"--set {override}", True), found


def test_config_and_host_tell_their_problems_together(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "lorra: {}\n")
    write(tmp_path, "host: a\nprt: 22\n", "hosts/bad")
    with pytest.raises(HalfstepError) as caught:
        load_named("bad", "mine", [], tmp_path)
    assert [Path(found.where).name for found in caught.value.findings] == ["mine.yaml:4", "bad.yaml:2"]


def test_a_host_that_lies_with_the_config_is_found_from_elsewhere(tmp_path: Path) -> None:
    config = write(tmp_path / "project", GOOD)
    write(tmp_path / "project", "host: there.example\n", "hosts/rig")
    (tmp_path / "elsewhere").mkdir()
    assert load_named("rig", str(config), [], tmp_path / "elsewhere").host.config.host == "there.example"


def test_a_shipped_config_brings_no_host_before_the_projects_own(tmp_path: Path) -> None:
    write(tmp_path, "host: mine.example\n", "hosts/titan")
    named = load_named("titan", "tiny", [], tmp_path)
    assert (named.loaded.path.parent, named.host.config.host) == (shipped_configs(), "mine.example")


def test_a_config_that_is_a_folder_or_leads_nowhere_is_none(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "configs" / "folder.yaml").mkdir()
    (tmp_path / "configs" / "gone.yaml").symlink_to("nowhere")
    (tmp_path / "configs" / "loop.yaml").symlink_to("loop.yaml")
    assert [name for name, path in list_configs(tmp_path).items() if tmp_path in path.parents] == ["mine"]
    assert "there is no config" in told(tmp_path, "folder")


def test_a_host_that_nobody_knows_has_its_nearest_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text("Host gpubox other-*\n  HostName 10.0.0.1\nHost=titan2\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(tmp_path / "ssh"))
    write(tmp_path, "host: a\n", "hosts/titan")
    assert set(load_host("titn", tmp_path).near) == {"titan", "titan2"}
    assert load_host("gpubox", tmp_path).near == load_host("local", tmp_path).near == ()


def test_a_host_without_a_file_is_an_alias(tmp_path: Path) -> None:
    assert load_host("gpubox", tmp_path).config.host == "gpubox"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("host: a\nport: 0\n", "port"),
        ("host: a\nport: 65536\n", "port"),
        ("host: a\nport: 22.5\n", "port"),
        ("user: me\n", "host"),
        ("host: a\ncard: titan-rx\n", "titan-rtx"),
        ("host: a\nscheduler: pbs\n", "scheduler"),
        ("host: a\nenv: {HF_TOKEN: hf_abc}\n", "secrets: [HF_TOKEN]"),
        ("host: a\nproxy_jump: gate\n", "proxy_jump: [gate]"),
    ],
)
def test_a_bad_host_file_is_told(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "h.yaml"
    path.write_text(text)
    with pytest.raises(HalfstepError) as caught:
        load_host(str(path), tmp_path)
    assert any(word in f"{f.message}{f.hint}" for f in caught.value.findings), caught.value.findings
