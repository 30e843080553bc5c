"""How the processes of a job are started, and on which cards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.config.load import load_config
from pipeline.runs.backend import srun_options
from pipeline.runs.command import command_of, environment_of, job_place, ranks_of
from pipeline.runs.launcher import LOOPBACK_ONLY, ON_NODES, describe_processes, on_one_host
from pipeline.runs.run_id import run_id
from pipeline.runs.selection import load_selection
from pipeline.runs.start import start_request
from pipeline.runs.view import View
from remote.protocol.machine import Driver, Gpu
from tests.pipeline.views import view_of

TORCHRUN = ("/usr/bin/python3", "-m", "torch.distributed.run", "--nproc-per-node", "2")
BUILT_IN = "model={id: a/b}", "command=null", "data.dataset=tiny-speech"
GIB = 2**30


def view_with(root: Path, *overrides: str, cards: int = 0) -> View:
    """Return a view with `--set` overrides of config and host, on a machine with that many cards."""
    view = view_of(root, None)
    run = [override for override in overrides if not override.startswith("host.")]
    host = [override for override in overrides if override.startswith("host.")]
    gpus = tuple(Gpu(index, f"GPU-{index}", "RTX", (7, 5), 24 * GIB) for index in range(cards))
    survey = replace(view.survey, gpus=gpus, driver=Driver("550.1") if cards else view.survey.driver)
    return replace(view, loaded=load_config("plain", root, run), host=load_host("local", root, host), survey=survey)


def argv_of(view: View) -> tuple[str, ...]:
    return command_of(view, job_place(view))


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        (("host.gpus=[0, 1]",), 2),
        (("host.gpus=[2, 3]", "processes=2"), 2),
        (("processes=2",), 2),
        (("host.gpus=[0, 1]", "processes=1"), 1),
        (("host.gpus=[0]",), 1),
        (("host.gpus=[]",), 1),
        ((), 1),
    ],
)
def test_torchrun_starts_a_process_for_each_listed_card(tmp_path: Path, settings: tuple[str, ...], count: int) -> None:
    view = view_with(tmp_path, *settings)
    argv = argv_of(view)
    assert (argv[:5] == TORCHRUN) == (count == 2)
    assert argv[-1] == "train.py"
    assert (start_request(view, "r", 1, "").spec.processes, start_request(view, "r", 1, "").spec.hosts) == (count, 1)
    assert bool(describe_processes(view)) == (count == 2)


@pytest.mark.parametrize(
    ("command", "started"),
    [
        ("python train.py --bf16 x", ("train.py", "--bf16", "x")),
        ("python3 -u train.py", ("train.py",)),
        ("python -m pkg.train --epochs 3", ("-m", "pkg.train", "--epochs", "3")),
        ("torchrun --nproc-per-node 4 train.py", None),
        ("accelerate launch train.py", None),
        ("python -m accelerate.commands.launch train.py", None),
        ("python -m torch.distributed.run train.py", None),
        ("bash train.py", None),
        ("python -X dev train.py", None),
        ("python -c 'import train'", None),
        ("python", None),
    ],
)
def test_a_python_script_is_wrapped_and_every_other_command_kept(
    tmp_path: Path, command: str, started: tuple[str, ...] | None
) -> None:
    single = view_with(tmp_path, f'command="{command}"')
    several = view_with(tmp_path, f'command="{command}"', "host.gpus=[0, 1]")
    said = describe_processes(several)
    if started is None:
        assert argv_of(several) == argv_of(single)
        assert "starts its own processes" in said
        assert ranks_of(several) == 1
    else:
        argv = argv_of(several)
        assert (argv[:5], argv[-len(started) :]) == (TORCHRUN, started)
        assert said.startswith("torchrun starts 2 processes")
    assert describe_processes(single) == ""


def test_the_built_in_trainer_has_one_card_per_process(tmp_path: Path) -> None:
    def visible(*settings: str, cards: int = 4) -> str | None:
        return environment_of(view_with(tmp_path, *BUILT_IN, *settings, cards=cards)).get("CUDA_VISIBLE_DEVICES")

    assert visible("host.gpus=[1, 3]") == "1,3"
    assert visible("host.gpus=[1, 3]", "processes=1") == "1"
    assert visible() == "0", "in one process with four cards, transformers would use DataParallel"
    assert visible("processes=2") == "0,1"
    assert visible(cards=1) is None
    assert visible("host.scheduler=slurm") is None, "Slurm chooses the cards"
    assert visible("host.env={CUDA_VISIBLE_DEVICES: '2'}") == "2"


def test_cards_are_numbered_as_nvidia_smi_does(tmp_path: Path) -> None:
    environment = environment_of(view_with(tmp_path, "host.gpus=[1]", cards=2))
    assert (environment["CUDA_DEVICE_ORDER"], environment["CUDA_VISIBLE_DEVICES"]) == ("PCI_BUS_ID", "1")
    assert "CUDA_DEVICE_ORDER" not in environment_of(view_with(tmp_path, cards=2))


def test_the_cards_of_a_config_override_those_of_the_host(tmp_path: Path) -> None:
    view_of(tmp_path, None)
    words = ("host.gpus=[0, 1, 2, 3]", "gpus=[2, 3]")
    assert load_selection("local", "plain", words, tmp_path).host.config.gpus == (2, 3)
    assert load_selection("local", "plain", words[:1], tmp_path).host.config.gpus == (0, 1, 2, 3)


def test_the_number_of_processes_is_part_of_the_work_however_it_was_given(tmp_path: Path) -> None:
    one = run_id(view_with(tmp_path))
    two = run_id(view_with(tmp_path, "processes=2"))
    assert run_id(view_with(tmp_path, "processes=1")) == one != two
    assert run_id(view_with(tmp_path, "host.gpus=[0, 1]")) == two
    assert run_id(view_with(tmp_path, "host.gpus=[0, 1]", "processes=1")) == one


def test_the_processes_of_one_host_meet_on_its_loopback_interface(tmp_path: Path) -> None:
    two = view_with(tmp_path, "processes=2")
    argv = " ".join(argv_of(two))
    assert "--rdzv-endpoint {rendezvous} --rdzv-conf store_type=file," in argv
    assert "--local-addr 127.0.0.1 " in argv
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
    assert [environment_of(two)[name] for name in names] == ["lo", "lo"]
    assert not set(names) & set(environment_of(view_with(tmp_path)))
    own = view_with(tmp_path, "processes=2", 'command="accelerate launch train.py"')
    assert not set(names) & set(environment_of(own)), "its processes may be on several hosts"
    assert environment_of(view_with(tmp_path, "processes=2", "env={GLOO_SOCKET_IFNAME: eth1}"))[names[0]] == "eth1"


SLURM = ("host.scheduler=slurm", "host.slurm={nodes: 2, partition: gpu}")


def test_torchrun_is_started_on_each_node_of_a_slurm_job(tmp_path: Path) -> None:
    view = view_with(tmp_path, *SLURM, "processes=4")
    request = start_request(view, "r", 1, "")
    words = " ".join(request.spec.argv)
    assert request.spec.argv[1:5] == (*ON_NODES, "2")
    assert "--nproc-per-node 4" in words
    assert "--nnodes 2 --rdzv-conf is_host={is_host}," in words
    assert "--rdzv-endpoint {endpoint} --local-addr {local_address}" in words
    assert request.spec.hosts == 2
    assert (request.slurm, request.spec.processes) == (("--partition=gpu", "--nodes=2", "--ntasks-per-node=1"), 8)
    assert not set(LOOPBACK_ONLY) & set(request.spec.environment), "each node finds its interface"
    assert "on each of 2 nodes" in describe_processes(view)
    assert on_one_host(request.spec.argv)[1:3] == ("-m", "torch.distributed.run")


def test_one_process_on_each_node_is_started_by_torchrun_and_everything_else_takes_one_node(tmp_path: Path) -> None:
    view = view_with(tmp_path, *SLURM)
    assert "torch.distributed.run" in start_request(view, "r", 1, "").spec.argv
    assert "torch.distributed.run" not in argv_of(view), "the proof is on one node"
    assert srun_options(view.host.config, view.config) == ("--partition=gpu",)
    assert run_id(view) != run_id(view_with(tmp_path, *SLURM[:1]))
    own = start_request(view_with(tmp_path, *SLURM, 'command="bash train.py"'), "r", 1, "")
    assert (own.spec.argv, own.spec.hosts, own.slurm[-2]) == (("bash", "train.py"), 2, "--nodes=2")


def test_processes_that_are_started_again_get_a_new_store(tmp_path: Path) -> None:
    name = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
    assert environment_of(view_with(tmp_path, "processes=2", "restarts=1"))[name] == "1"
    assert name not in environment_of(view_with(tmp_path, "processes=2"))
