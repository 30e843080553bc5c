"""Checks of `train.report_to`: the packages of the trackers on the host, and the key of W&B. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline.config.model import RunConfig
from remote.protocol.findings import Finding
from remote.protocol.machine import Interpreter
from remote.protocol.shell import install_on_host

PACKAGES = {"wandb": ("wandb",), "mlflow": ("mlflow", "mlflow-skinny"), "trackio": ("trackio",)}
"""The packages that provide each tracker.

The hint suggests the first. TensorBoard is always required by the trainer.
"""
WITHOUT_KEY = ("offline", "disabled", "dryrun")


def judge_trackers(
    config: RunConfig, python: Interpreter, env: Mapping[str, str], secrets: tuple[str, ...]
) -> Iterator[Finding]:
    """Yield a warning for each tracker that will receive no data.

    The training runs without the tracker. `env` and `secrets` are those of the job. If the interpreter does not run,
    its packages are unknown, and there are no warnings.
    """
    if config.command is not None or python.error:
        return
    for name in dict.fromkeys(config.train.report_to):
        packages = PACKAGES.get(name, ())
        if packages and not any(package in python.packages for package in packages):
            message = f"{python.path} has no {packages[0]}; the training will not be tracked by {name}"
            hint = install_on_host(python.path, packages[:1])
            yield Finding.warning("tracker", message, "train.report_to", hint)
        elif name == "wandb" and "WANDB_API_KEY" not in secrets and env.get("WANDB_MODE") not in WITHOUT_KEY:
            message = "W&B gets no key from this machine; the training will not be tracked unless the host is logged in"
            yield Finding.warning("tracker", message, "train.report_to", "secrets: [WANDB_API_KEY]")
