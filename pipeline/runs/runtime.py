"""Settings for `fixers: {runtime: auto}`: hooks apply the precision plan inside the training process."""

from __future__ import annotations

from pipeline.config.model import RunConfig
from pipeline.runs.view import View
from remote.protocol.runtime import runtime_environment


def wants_runtime(config: RunConfig) -> bool:
    """Return True if the hooks are to apply the precision plan. The built-in trainer applies the plan without hooks."""
    return config.command is not None and (config.fixers.model_extra or {}).get("runtime") == "auto"


def runtime_of(view: View) -> dict[str, str]:
    """Return the environment variables that make the hooks apply the precision plan, or {} if the runtime is off."""
    return runtime_environment(view.precision) if wants_runtime(view.config) else {}


def describe_runtime(view: View) -> str:
    """Return a line about the runtime for the user, or "" if the runtime is off."""
    if not wants_runtime(view.config):
        return ""
    mode = view.precision.mode.value
    if not runtime_of(view):
        return f"runtime: auto changes nothing in precision {mode}"
    return f"runtime: auto applies {mode} inside the training process (pipeline explain runtime)"
