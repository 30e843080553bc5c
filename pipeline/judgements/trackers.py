"""Checks of the trackers of a training: their packages on the host, and the key of W&B. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fixers.setup.wandb_uses import WITHOUT_KEY, WandbUse
from pipeline.config.model import RunConfig
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import Interpreter
from remote.protocol.shell import install_on_host

PACKAGES = {"wandb": ("wandb",), "mlflow": ("mlflow", "mlflow-skinny"), "trackio": ("trackio",)}
"""The packages that provide each tracker.

The hint suggests the first. TensorBoard is always required by the trainer.
"""
API_KEY = "WANDB_API_KEY"
HINT = "add WANDB_API_KEY to `secrets:`, or set env: {WANDB_MODE: offline}"


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
        elif name == "wandb" and not has_wandb_key(env, secrets):
            message = "W&B gets no key from this machine; the training will not be tracked unless the host is logged in"
            yield Finding.warning("tracker", message, "train.report_to", "secrets: [WANDB_API_KEY]")


def has_wandb_key(env: Mapping[str, str], secrets: Sequence[str]) -> bool:
    """Return True if the job has an API key of W&B, or needs none."""
    is_off = env.get("WANDB_MODE") in WITHOUT_KEY or env.get("WANDB_DISABLED", "").lower() in ("1", "true", "yes", "on")
    return API_KEY in secrets or is_off


def judge_wandb_uses(uses: Sequence[WandbUse]) -> Finding:
    """Return an error about the first use that needs a key in any case, or a warning about the first use."""
    use = next((each for each in uses if each.certain), uses[0])
    effect = "so the training will fail" if use.certain else "so the training fails if it gets there"
    message = f"{use.call} needs an API key of Weights and Biases, but neither the job nor the host has one, {effect}"
    severity = Severity.ERROR if use.certain else Severity.WARNING
    return Finding("tracker", severity, message, use.where, HINT, ExitCode.ENVIRONMENT)
