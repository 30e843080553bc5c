"""Several hosts that train one run: whether they can, under which id, from which checkpoint, in which state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.config.hosts import load_host
from pipeline.config.load import load_config
from pipeline.runs.command import command_of, environment_of, job_place, steps_of
from pipeline.runs.group import Group, Node
from pipeline.runs.group_checks import (
    GroupState,
    common_step,
    group_of,
    judge_group,
    judge_group_state,
    judge_resume,
    verified_checkpoints,
)
from pipeline.runs.launcher import on_one_host
from pipeline.runs.run_id import run_id, training_inputs
from pipeline.runs.selection import hosts_in, load_selections
from pipeline.runs.view import View
from remote.errors import BadUsage
from remote.protocol.jobs import Checkpoint, JobState, RunSurvey
from remote.protocol.machine import Interpreter, Torch
from tests.pipeline.views import view_of

NODE = Node("plain-1-2", "10.0.0.1:4000", True, "10.0.0.1", "eth0")


def hosts(root: Path, *overrides: str, command: str = "[python, train.py]") -> tuple[View, View]:
    """Two hosts, alike but for their machine."""
    view = view_of(root, None)
    view = replace(view, loaded=load_config("plain", root, [f"command={command}", *overrides]))
    other = replace(view.survey, machine=replace(view.survey.machine, machine_id="other"))
    return (
        replace(view, host=replace(view.host, name="a")),
        replace(view, host=replace(view.host, name="b"), survey=other),
    )


def test_a_training_on_several_hosts_has_its_own_run(tmp_path: Path) -> None:
    a, b = hosts(tmp_path)
    group = group_of([a, b])
    ids = {run_id(replace(view, group=group)) for view in (a, b)}
    assert len(ids) == 1
    assert ids.isdisjoint({run_id(a), run_id(b)})
    assert group_of([b, a]).work == group.work
    assert (group.hosts, group.processes) == (("a", "b"), 2)


def test_torchrun_meets_on_the_first_host(tmp_path: Path) -> None:
    a, b = hosts(tmp_path, "processes=2", "restarts=3")
    group = group_of([a, b])
    assert group.processes == 4
    second = replace(b, group=replace(group, node=replace(NODE, is_first=False, address="10.0.0.2")))
    argv = command_of(second, job_place(second))
    words = " ".join(argv)
    for flag in (
        "--nnodes 2",
        "--nproc-per-node 2",
        "--max-restarts 3",
        "--rdzv-endpoint 10.0.0.1:4000",
        "--rdzv-id plain-1-2",
        "--rdzv-conf is_host=0,",
        "--local-addr 10.0.0.2",
    ):
        assert flag in words
    assert argv[-1] == "train.py"
    environment = environment_of(second)
    assert (environment["GLOO_SOCKET_IFNAME"], environment["NCCL_SOCKET_IFNAME"]) == ("eth0", "eth0")


def test_an_evaluation_of_its_adapter_needs_no_other_host(tmp_path: Path) -> None:
    a, b = hosts(tmp_path, "processes=2")
    argv = command_of(replace(a, group=replace(group_of([a, b]), node=NODE)), job_place(a))
    assert on_one_host(argv) == command_of(a, job_place(a))
    assert on_one_host(("python", "-B")) == ("python", "-B")


def test_one_process_on_each_host_is_started_by_torchrun_too(tmp_path: Path) -> None:
    a, b = hosts(tmp_path)
    argv = command_of(replace(a, group=replace(group_of([a, b]), node=NODE)), job_place(a))
    assert argv[1:5] == ("-m", "torch.distributed.run", "--nproc-per-node", "1")


def test_the_number_of_steps_counts_the_processes_of_all_hosts(tmp_path: Path) -> None:
    built_in = ("model={id: tiny/phi4-multimodal}", "data={dataset: tiny-speech, samples: 64}", "train.epochs=1")
    sizes = ("train.batch_size=2", "train.gradient_accumulation=2")
    a, b = hosts(tmp_path, *built_in, *sizes, command="null")
    assert steps_of(a) == 16
    assert steps_of(replace(a, group=group_of([a, b]))) == 8


def with_torch(view: View, **changed: Any) -> View:
    python = Interpreter("/usr/bin/python3", version=(3, 11, 2), torch=Torch("2.12.0"))
    return replace(view, survey=replace(view.survey, interpreter=replace(python, **changed)))


def test_hosts_that_are_alike_can_train_together(tmp_path: Path) -> None:
    assert judge_group(hosts(tmp_path)).ok


def test_differences_are_named(tmp_path: Path) -> None:
    a, b = hosts(tmp_path)
    (finding,) = judge_group([a, with_torch(b)]).findings
    assert (finding.check, finding.message) == ("hosts-differ", "torch: a has 2.13.0, b has 2.12.0")
    same_machine = replace(b, survey=a.survey)
    (finding,) = judge_group([a, same_machine]).findings
    assert "a and b are the same machine with the same workdir" in finding.message
    assert judge_group([a, replace(same_machine, workdir="/data/halfstep")]).ok
    half = replace(b, loaded=load_config("plain", tmp_path, ["command=[python, train.py]", "train.epochs=9"]))
    assert [one.where for one in judge_group([a, half]).findings] == ["settings"]


def test_the_versions_of_the_trainer_count_only_for_the_built_in_one(tmp_path: Path) -> None:
    def versions(command: str) -> list[str]:
        built_in = ("model={id: a/b}", "data={dataset: tiny-speech}") if command == "null" else ()
        a, b = hosts(tmp_path, *built_in, command=command)
        torch = a.survey.interpreter.torch
        old, new = ({"peft": version, "transformers": "5.1"} for version in ("0.18", "0.19"))
        views = [with_torch(a, torch=torch, packages=old), with_torch(b, torch=torch, packages=new)]
        return [finding.message for finding in judge_group(views).findings]

    assert versions("null") == ["peft: a has 0.18, b has 0.19"]
    assert versions("[python, train.py]") == []


def test_a_launcher_of_the_project_is_refused_by_name(tmp_path: Path) -> None:
    (finding,) = judge_group(hosts(tmp_path, command="[torchrun, train.py]")).findings
    assert "torchrun would start its processes on each host separately" in finding.message


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (("succeeded", "succeeded"), GroupState.DONE),
        (("running", "running"), GroupState.RUNNING),
        (("running", "succeeded"), GroupState.RUNNING),
        (("running", "failed"), GroupState.BROKEN),
        (("lost", "running"), GroupState.BROKEN),
        (("running", ""), GroupState.STARTING),
        (("running", "absent"), GroupState.STARTING),
        (("failed", "succeeded"), GroupState.OPEN),
        (("failed", "lost"), GroupState.OPEN),
        (("", ""), GroupState.OPEN),
    ],
)
def test_the_state_of_a_group_follows_from_all_hosts(states: tuple[str, ...], state: GroupState) -> None:
    assert judge_group_state([run(state) if state else None for state in states]) is state


def test_a_job_without_its_counterpart_on_another_host_does_not_wait_for_a_failed_one() -> None:
    first, second = run("failed"), replace(run("running"), job=2)
    assert judge_group_state([first, second]) is GroupState.STARTING
    assert judge_group_state([replace(first, job=2), second]) is GroupState.BROKEN
    assert judge_group_state([replace(second, state=JobState.STOPPED), first]) is GroupState.OPEN


def run(state: str, *steps: int, broken: tuple[int, ...] = ()) -> RunSurvey:
    whole = (Checkpoint(f"checkpoints/checkpoint-{step}", step) for step in steps)
    damaged = (Checkpoint(f"checkpoints/checkpoint-{step}", step, problem="cut") for step in broken)
    return RunSurvey("plain-1", "plain", "f", 1, JobState(state), checkpoints=(*whole, *damaged))


@pytest.mark.parametrize(
    ("runs", "step"),
    [
        ((run("failed", 4, 8), run("lost", 4, 8)), 8),
        ((run("failed", 4, 8), run("lost", 4)), 4),
        ((run("failed", 4, 8), run("lost", 4, broken=(8,))), 4),
        ((run("failed"), run("failed")), None),
        ((None, None), None),
        ((run("failed", 8), run("lost", 4)), 0),
        ((run("failed", 8), None), 0),
        ((run("failed", broken=(8,)), run("failed")), 0),
    ],
)
def test_a_resume_uses_the_newest_step_that_every_host_has(
    tmp_path: Path, runs: tuple[RunSurvey | None, ...], step: int | None
) -> None:
    assert common_step(runs) == step
    refused = judge_resume(runs, hosts(tmp_path))
    assert (refused is not None) == (step == 0)
    if refused is not None:
        assert refused.exit_code == 43
        assert "a has" in refused.message
        assert "b has" in refused.message


@pytest.mark.parametrize("whole_first", [True, False])
def test_a_damaged_checkpoint_of_the_same_step_is_not_resumed(whole_first: bool) -> None:
    found = (Checkpoint("a/checkpoint-8", 8, problem="cut"), Checkpoint("b/checkpoint-8", 8), Checkpoint("b/last", 4))
    failed = replace(run("failed"), checkpoints=found[::-1] if whole_first else found)
    assert verified_checkpoints(failed) == {8: "b/checkpoint-8", 4: "b/last"}
    assert common_step((failed, run("failed", 8))) == 8


def test_a_comma_separates_hosts_except_in_ssh_commands() -> None:
    assert hosts_in("a,b") == ("a", "b")
    assert hosts_in("root@203.0.113.9:22, local") == ("root@203.0.113.9:22", "local")
    assert hosts_in("root@203.0.113.9:22,local") == ("root@203.0.113.9:22", "local")
    assert hosts_in("ssh me@titan -o X=a,b") == ("ssh me@titan -o X=a,b",)
    assert hosts_in(" ssh me@titan -J a,b ") == ("ssh me@titan -J a,b",)


@pytest.mark.parametrize("typed", ["a ,b", " a,b", "a\t, b "])
def test_SE_spaces_around_names_of_hosts_are_no_part_of_them(typed: str) -> None:
    assert hosts_in(typed) == ("a", "b")
    assert hosts_in(typed.partition(",")[0]) == ("a",)


@pytest.mark.parametrize("typed", ["gpu1,gpu2", "gpu1,configs/hosts/gpu2.yaml"])
def test_SE_a_file_of_the_project_is_never_taken_for_several_hosts(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in (tmp_path / typed, tmp_path / "configs/hosts" / f"{typed}.yaml"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("host: evil.example\n")
    assert hosts_in(typed) == tuple(typed.split(","))


def test_each_selection_repeats_the_words_that_were_typed(tmp_path: Path) -> None:
    view_of(tmp_path, None)
    chosen = load_selections(("local", "titan"), "plain", ("processes=2",), tmp_path)
    assert [one.host.name for one in chosen] == ["local", "titan"]
    assert {one.given for one in chosen} == {("--host", "local,titan", "--config", "plain", "--set", "processes=2")}
    for wrong in (("local", "local"), ("local", "")):
        with pytest.raises(BadUsage, match="duplicate"):
            load_selections(wrong, "plain", (), tmp_path)


def test_a_group_changes_only_the_run_of_a_view(tmp_path: Path) -> None:
    a, b = hosts(tmp_path)
    alone = training_inputs(a)
    assert training_inputs(replace(a, group=Group(("a", "b"), group_of([a, b]).work, 2))) == alone
    assert load_host("local", tmp_path, ["host.address=10.0.0.7"]).config.address == "10.0.0.7"
