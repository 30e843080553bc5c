"""Which commands of a README become the command of a config, and which are only named."""

from __future__ import annotations

import pytest

from pipeline.config.readme_commands import Start, choose_start

PLAIN = ("python", "train.py")
LAUNCHED = ("accelerate", "launch", "--config_file", "a.yaml", "train.py")
PARALLEL = {"TOKENIZERS_PARALLELISM": "true"}


def start(*lines: str) -> Start:
    return choose_start("train.py", "train", PLAIN, {"README.md": "\n".join(lines).encode()})


def test_launcher_arguments_and_variables_of_the_only_command_are_kept() -> None:
    page = [
        "```bash",
        "TOKENIZERS_PARALLELISM=true accelerate launch --config_file a.yaml train.py \\ ",
        "  --lora",
        "```",
    ]
    assert start(*page) == Start((*LAUNCHED, "--lora"), PARALLEL)


def test_commands_that_differ_only_in_arguments_share_their_launcher_and_variables() -> None:
    line = "TOKENIZERS_PARALLELISM=true accelerate launch --config_file a.yaml ./train.py"
    found = start("# Title", f"  {line} --lr 1", "text", f"A=b {line} \\", "--lora", "--rank 8")
    assert found == Start((*LAUNCHED[:-1], "./train.py"), PARALLEL, ("README.md:2", "README.md:4"))


@pytest.mark.parametrize(
    ("lines", "argv", "places"),
    [
        (["python train.py --config v1.json"], (*PLAIN, "--config", "v1.json"), []),
        (["python train.py"], PLAIN, []),
        (["python train.py --a", "python train.py --b"], PLAIN, ["README.md:1", "README.md:2"]),
        (["python train.py", "python train.py --data <folder>"], PLAIN, []),
        (["python train.py --data <folder>"], PLAIN, ["README.md:1"]),
        (["python train.py --data DATA_DIR"], PLAIN, ["README.md:1"]),
        (["python train.py --out=OUTPUT_PATH/x"], PLAIN, ["README.md:1"]),
        (["torchrun --nproc_per_node <N> train.py"], PLAIN, ["README.md:1"]),
        (["torchrun train.py --a", "python train.py --a"], PLAIN, ["README.md:1", "README.md:2"]),
        (["python prepare.py --for train.py"], PLAIN, []),
        (["python -m torch.distributed.run train.py"], ("python", "-m", "torch.distributed.run", "train.py"), []),
        (["python -m train --x 1"], ("python", "-m", "train", "--x", "1"), []),
        (["python train.py --token hf_abcdefghijklmnopqrst"], PLAIN, ["README.md:1"]),
        (["python train.py --name \U0001f600"], PLAIN, ["README.md:1"]),
        (["Use python train.py --a to train"], PLAIN, []),
    ],
)
def test_a_command_that_needs_editing_is_only_named(lines: list[str], argv: tuple[str, ...], places: list[str]) -> None:
    found = start(*lines)
    assert (found.argv, list(found.places)) == (argv, places)


@pytest.mark.parametrize(
    ("variables", "kept", "omitted"),
    [
        ("A=1 B='c d'", {"A": "1", "B": "c d"}, []),
        ("CUDA_VISIBLE_DEVICES=0,1 A=1", {"A": "1"}, ["CUDA_VISIBLE_DEVICES"]),
        ("HALFSTEP_KEY_FILE= A=1", {"A": "1"}, ["HALFSTEP_KEY_FILE"]),
        ("halfstep_run_dir=/tmp HALFSTEPS=2", {"HALFSTEPS": "2"}, ["halfstep_run_dir"]),
        ("WANDB_API_KEY=0123abcd", {}, ["WANDB_API_KEY"]),
        ("WANDB_API_KEY=<key> A=", {"A": ""}, ["WANDB_API_KEY"]),
        ("DATA=/path/to/data", {}, ["DATA"]),
    ],
)
def test_cards_secrets_and_placeholders_are_no_variables_of_a_config(
    variables: str, kept: dict[str, str], omitted: list[str]
) -> None:
    found = start(f"{variables} python train.py --lr 1")
    assert (found.argv, found.variables, list(found.omitted)) == ((*PLAIN, "--lr", "1"), kept, omitted)


def test_SE_12_a_page_of_one_line_is_read_in_linear_time() -> None:
    assert start("A=b " * 50_000 + "python train.py", "A=" * 50_000, "python train.py \\\n" * 50_000) == Start(PLAIN)
