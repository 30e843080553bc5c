"""A torchrun that a shell script starts without the hooks is an error before it is started."""

from __future__ import annotations

from time import process_time

import pytest

from pipeline.judgements.unhooked_launchers import CHECK, judge_blind_proof, judge_launchers
from tests.fixers.setup_rig import MemoryTree

START = "torchrun --standalone --nproc-per-node 2 train.py\n"


def found_in(text: str, command: tuple[str, ...] = ("bash", "run.sh"), **files: str) -> tuple[tuple[str, str], ...]:
    tree = MemoryTree({name: each.encode() for name, each in {"run.sh": text, **files}.items()})
    report = judge_launchers(tree, command)
    assert all(each.check == CHECK and "another user" in each.message for each in report.findings)
    return tuple((each.where, each.message.partition("because ")[2].partition(":")[0]) for each in report.findings)


SET = "PYTHONPATH is set without its earlier value"


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        (f"export PYTHONPATH=$PWD\n{START}", "run.sh:2", f"{SET} in line 1"),
        (f'PYTHONPATH="src:$(pwd)"\nexport OMP_NUM_THREADS=1\n{START}', "run.sh:3", f"{SET} in line 1"),
        (f"PYTHONPATH=. {START}", "run.sh:1", f"{SET} in line 1"),
        (f"ROOT=$(dirname $0)\ndeclare -x PYTHONPATH=$ROOT/src\nexec {START}", "run.sh:3", f"{SET} in line 2"),
        (f"unset PYTHONPATH\nif true; then\n  {START}fi\n", "run.sh:3", "PYTHONPATH is removed in line 1"),
        (f"env PYTHONPATH=$PWD {START}", "run.sh:1", "`env` sets PYTHONPATH without its earlier value"),
        (f"env -i PATH=$PATH {START}", "run.sh:1", "`env -i PATH=$PATH` removes its variables"),
        (f"sudo -u me {START}", "run.sh:1", "`sudo -u me` removes its variables"),
        (f"srun --export=PATH,HOME {START}", "run.sh:1", "`srun --export=PATH,HOME` removes its variables"),
        (f"apptainer exec -e t.sif {START}", "run.sh:1", "`apptainer exec -e t.sif` removes its variables"),
        (
            "python3 -Iu -m torch.distributed.run --rdzv_backend c10d --nproc_per_node 2 train.py\n",
            "run.sh:1",
            "python -I ignores PYTHONPATH",
        ),
        ("export PYTHONPATH=src\n.venv/bin/torchrun --rdzv-backend=c10d t.py\n", "run.sh:2", f"{SET} in line 1"),
        ("export PYTHONPATH=src\ntorchrun train.py\ntorchrun next.py\n", "run.sh:2", f"{SET} in line 1"),
        ("export PYTHONPATH=src\ntorchrun --nnodes 1 t.py --master_port 29511\n", "run.sh:2", f"{SET} in line 1"),
        ("export PYTHONPATH=src\npython -mtorch.distributed.run t.py\n", "run.sh:2", f"{SET} in line 1"),
        ("export PYTHONPATH=src\npython env/torch/distributed/run.py t.py\n", "run.sh:2", f"{SET} in line 1"),
        ("export PYTHONPATH=src\ncommand torchrun t.py\n", "run.sh:2", f"{SET} in line 1"),
        (
            f"docker run --rm --network host --gpus all -v /w -w /w {'-e A=1 ' * 9}img torchrun t.py\n",
            "run.sh:1",
            f"`docker run --rm --network host --gpus all -v /w -w /w {'-e A=1 ' * 9}img` removes its variables",
        ),
        (
            'exec docker run img bash -c "cd $PWD && torchrun --standalone t.py"\n',
            "run.sh:1",
            "`exec docker run img bash -c cd $PWD && torchrun --standalone t.py` removes its variables",
        ),
        (
            "docker run -v $PWD/t.py -w /w img torchrun t.py\n",
            "run.sh:1",
            "`docker run -v $PWD/t.py -w /w img` removes its variables",
        ),
        (
            "podman exec box bash -c 'cd /w && torchrun t.py'\n",
            "run.sh:1",
            "`podman exec box bash -c cd /w && torchrun t.py` removes its variables",
        ),
    ],
)
def test_a_torchrun_without_the_hooks_is_an_error_with_both_lines(text: str, where: str, why: str) -> None:
    assert found_in(text) == ((where, why),)


@pytest.mark.parametrize(
    "text",
    [
        START,
        f"export PYTHONPATH=$PWD:$PYTHONPATH\n{START}",
        f"export PYTHONPATH=$PWD${{PYTHONPATH:+:$PYTHONPATH}}\n{START}",
        f"PYTHONPATH+=:src\n{START}",
        f"OLD=$PYTHONPATH\nexport PYTHONPATH=src:$OLD\n{START}",
        f"env PYTHONPATH=src:$PYTHONPATH {START}",
        f"env NCCL_DEBUG=INFO python -u -m {START}",
        f"srun --export=ALL,A=b {START}",
        f"apptainer exec --nv t.sif {START}",
        f"PYTHONPATH=. python prepare.py\n{START}",
        f"{START}export PYTHONPATH=$PWD\n",
        f"export PYTHONPATH=$PWD\necho {START}",
        "export PYTHONPATH=$PWD\npython train.py\n",
        "export PYTHONPATH=$PWD\naccelerate launch train.py\n",
        "export PYTHONPATH=$PWD\ntorchrun --nproc-per-node 2 --master_port=29501 train.py\n",
        "export PYTHONPATH=$PWD\npkill -f torchrun\ncommand -v torchrun\npython t.py --launcher torchrun\n",
        'export PYTHONPATH=$PWD\nARGS="--nproc_per_node 2 --master_port 6000"\ntorchrun $ARGS train.py\n',
        'export PYTHONPATH=$PWD\nARGS=(\n  --nnodes 1\n  --master_port $PORT\n)\ntorchrun "${ARGS[@]}" train.py\n',
        "docker build -t torchrun .\ndocker run img python train.py\n",
        "export PYTHONPATH='\n",
    ],
)
def test_what_keeps_the_hooks_or_has_no_store_is_no_finding(text: str) -> None:
    assert found_in(text) == ()


def test_scripts_that_the_script_starts_and_texts_after_c_are_read() -> None:
    inner = f"export PYTHONPATH=/srv\n{START}"
    files = {"scripts/train.sh": inner}
    assert found_in("bash scripts/train.sh\n", **files) == (("scripts/train.sh:2", f"{SET} in line 1"),)
    assert found_in("", ("bash", "-c", inner)) == (("train.command:2", f"{SET} in line 1"),)


def test_the_command_itself_is_judged() -> None:
    start = ("torchrun", "--standalone", "train.py")
    assert found_in("", start) == ()
    isolated = ("python", "-I", "-m", "torch.distributed.run", *start[1:])
    assert found_in("", isolated) == (("train.command", "python -I ignores PYTHONPATH"),)
    replaced = ("env", "PYTHONPATH=src", *start)
    assert found_in("", replaced) == (("train.command", "`env` sets PYTHONPATH without its earlier value"),)


@pytest.mark.parametrize(
    "text",
    [
        f"python -{'I' * 200_000}! -m {START}",
        f"export PYTHONPATH=src\n{'PYTHONPATH=. true' * 5_000}\n{'torchrun train.py; ' * 8_000}",
        f"export PYTHONPATH=src\n{START * 10_000}",
        "export PYTHONPATH=src\n" + "torchrun --master_port 1 t.py\n" * 5_000,
    ],
    ids=["flags", "assignments", "a large script", "many starts"],
)
def test_SE_12_hostile_scripts_take_little_time(text: str) -> None:
    began = process_time()
    assert len(found_in(text)) <= 1
    assert process_time() - began < 5


@pytest.mark.parametrize("start", ["bash train.sh", ". ./train.sh", "srun bash scripts/train.sh"])
@pytest.mark.parametrize("names", [("train.sh", "b.sh"), ("scripts/train.sh", "a.sh")])
def test_a_script_inherits_what_its_caller_lost(start: str, names: tuple[str, str]) -> None:
    path = "scripts/train.sh" if "scripts" in start else "train.sh"
    files = {path: f"set -e\n{START}", names[1]: "true\n"}
    text = f"bash {names[1]}\nexport PYTHONPATH=$PWD\n{start}\n"
    assert found_in(text, **files) == ((f"{path}:2", f"{SET} in line 2 of run.sh"),)


def test_a_loss_is_handed_on_through_several_scripts_in_any_order() -> None:
    files = {"a.sh": "bash b.sh\n", "b.sh": "bash c.sh\n", "c.sh": START}
    text = "bash c.sh\nbash b.sh\nsudo bash a.sh\n"
    assert found_in(text, **files) == (("c.sh:1", "`sudo bash a.sh` removes its variables in run.sh"),)
    assert found_in("bash c.sh\nbash b.sh\nbash a.sh\n", **files) == ()


def test_a_command_that_removes_the_variables_of_its_script_is_an_error() -> None:
    assert found_in(START, ("env", "-i", "bash", "run.sh")) == (
        ("run.sh:1", "`env -i bash run.sh` removes its variables"),
    )


@pytest.mark.parametrize("source", [". ./path.sh", "source path.sh || exit 1"])
def test_a_sourced_script_hands_its_loss_to_its_caller(source: str) -> None:
    files = {"train.sh": f"{source}\n{START}", "path.sh": "export PYTHONPATH=$PWD\n"}
    where = "PYTHONPATH is set without its earlier value in line 1 of path.sh"
    assert found_in("exec sbatch --wait train.sh\n", **files) == (("train.sh:2", where),)
    without_ending = {"train.recipe": f"{source.replace('path.sh', 'env')}\n{START}", "env": files["path.sh"]}
    ((_, why),) = found_in("", ("bash", "train.recipe"), **without_ending)
    assert why == where.replace("path.sh", "env")
    assert found_in("bash path.sh\nbash train.sh\n", **{"path.sh": files["path.sh"], "train.sh": START}) == ()


def test_a_script_with_many_variables_is_judged_in_linear_time() -> None:
    value = "a " * 60_000
    text = f"export PYTHONPATH=$PWD\nA='{value}'\n" + "torchrun " + "$A " * 20_000 + "\n"
    assert len(text) < 256 * 2**10
    started = process_time()
    found_in(text)
    assert process_time() - started < 10.0


NEVER, ALWAYS, IF_UNSEEN = (False, False), (True, True), (True, False)


@pytest.mark.parametrize(
    ("text", "programs", "when"),
    [
        ("cat <<E | docker exec -i box bash\ntorchrun t.py\nE\n", ", docker", ALWAYS),
        ("DOCKER='docker run'\n$DOCKER img torchrun t.py\n", ", docker", ALWAYS),
        ("ssh localhost sudo torchrun t.py\n", ", ssh, sudo", ALWAYS),
        ("docker-compose run --rm img torchrun t.py\n", ", docker-compose", ALWAYS),
        ("tmux new -d 'torchrun t.py'\n", ", tmux", ALWAYS),
        ("unknown-program torchrun t.py\n", "", IF_UNSEEN),
        ("torchrun t.py\n", "", IF_UNSEEN),
        ("torchrun sudoku.py --su-x --data my-docker/x\n", "", IF_UNSEEN),
        ("# first: sudo apt-get install sox\ntorchrun t.py\n", "", IF_UNSEEN),
        ("python t.py  # with several cards: torchrun t.py\n", "", NEVER),
        ("docker run img python t.py\n", "", NEVER),
    ],
)
def test_a_torchrun_that_no_proof_saw_is_an_error_if_it_may_have_started_elsewhere(
    text: str, programs: str, when: tuple[bool, bool]
) -> None:
    for saw_torch, expected in zip((False, True), when, strict=True):
        tree = MemoryTree({"run.sh": text.encode()})
        report = judge_blind_proof(tree, ("bash", "run.sh"), saw_torch=saw_torch)
        assert [one.check for one in report.findings] == [CHECK] * expected, saw_torch
        assert all(f"contains torchrun{programs}:" in one.message for one in report.findings)


@pytest.mark.parametrize("name", ["train.sl", "train.batch", "launch", "tools/launch"])
def test_a_script_of_any_name_is_read(name: str) -> None:
    text = f"#!/bin/bash\nexport PYTHONPATH=$PWD\n{START}"
    assert found_in(f"sbatch --wait {name}\n", **{name: text}) == ((f"{name}:3", f"{SET} in line 2"),)


def test_a_file_without_an_ending_is_a_script_only_with_a_line_that_says_so() -> None:
    assert found_in("cat notes\n", notes=f"export PYTHONPATH=$PWD\n{START}") == ()


def test_a_text_in_the_command_of_the_config_is_read_too() -> None:
    text = "cd . && torchrun --standalone t.py"
    found = found_in("", ("docker", "run", "img", "bash", "-c", text))
    assert found == (("train.command", f"`docker run img bash -c {text}` removes its variables"),)


@pytest.mark.parametrize("word", ['"$(x {} torchrun)"', "'x {} torchrun'", '"a $b {} torchrun"'])
def test_texts_within_texts_are_read_to_a_limited_depth(word: str) -> None:
    text = "y"
    for _ in range(8):
        text = word.format(text)
    started = process_time()
    found_in(f"sudo bash -c {text}\n")
    assert process_time() - started < 5.0


@pytest.mark.parametrize(
    "start",
    [
        "docker-compose run --rm image",
        "podman-hpc run image",
        "kubectl exec pod --",
        "ssh localhost",
        "doas",
        "systemd-run --user",
        "env -u PYTHONPATH",
        "env --unset=PYTHONPATH",
    ],
)
def test_a_program_that_removes_the_variables_is_found_before_the_proof(start: str) -> None:
    assert found_in(f"python stage1.py\n{start} {START}") == (("run.sh:2", f"`{start}` removes its variables"),)


def test_the_words_of_a_variable_before_torchrun_are_read() -> None:
    found = found_in(f'DOCKER="docker run --rm"\n$DOCKER image {START}')
    assert found == (("run.sh:2", "`docker run --rm image` removes its variables"),)


@pytest.mark.parametrize(
    "start", ["docker build .\n", "env OMP_NUM_THREADS=1 ", "sudo apt-get install sox\n", "su bob -c true\n"]
)
def test_a_program_that_does_not_start_the_torchrun_or_keeps_the_variables_is_left_alone(start: str) -> None:
    assert found_in(f"{start}{START}") == ()
