"""The sbatch options of a job, from the keys of the host file and the config."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.config.host_model import HostConfig, SlurmConfig
from pipeline.config.model import RunConfig
from pipeline.runs.backend import Backend, backend_of


@pytest.mark.parametrize(
    ("host", "run", "options"),
    [
        (None, None, ()),
        ({"partition": "gpu"}, None, ("--partition=gpu",)),
        (None, {"time": 30}, ("--time=30",)),
        ({"time": "12:00:00", "gpus": 1}, {"time": 30}, ("--gpus=1", "--time=30")),
        ({"cpus": 8, "mem": "48G", "gres": "gpu:rtx:1"}, None, ("--gres=gpu:rtx:1", "--cpus-per-task=8", "--mem=48G")),
        (
            {"account": "a", "qos": "q", "constraint": "c", "extra": ["--exclusive"]},
            {"extra": ["--nice=10"]},
            ("--account=a", "--constraint=c", "--qos=q", "--exclusive", "--nice=10"),
        ),
    ],
)
def test_keys_of_the_config_override_those_of_the_host_and_extra_options_of_both_apply(
    host: dict[str, Any] | None, run: dict[str, Any] | None, options: tuple[str, ...]
) -> None:
    cluster = HostConfig.model_validate({"host": "a", "scheduler": "slurm", "slurm": host})
    assert backend_of(cluster, RunConfig.model_validate({"slurm": run})) == Backend("slurm", options, max_jobs=10)


def test_a_host_without_a_scheduler_ignores_the_options_of_a_config() -> None:
    assert backend_of(HostConfig(host="a"), RunConfig.model_validate({"slurm": {"time": 30}})) == Backend()


def test_max_jobs_of_the_config_overrides_that_of_the_host() -> None:
    cluster = HostConfig(host="login", scheduler="slurm", slurm=SlurmConfig(max_jobs=3))
    assert backend_of(cluster, RunConfig.model_validate({})).max_jobs == 3
    assert backend_of(cluster, RunConfig.model_validate({"slurm": {"max_jobs": 1}})).max_jobs == 1
    assert backend_of(HostConfig(host="box"), RunConfig.model_validate({})).max_jobs == 1
