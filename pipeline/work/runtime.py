"""`fixers: {runtime: auto}`: whether the hooks put the precision plan in force inside the training process."""

from __future__ import annotations

from pipeline.config.model import RunConfig
from pipeline.work.view import View
from remote.protocol.runtime import runtime_environment


def wants_runtime(config: RunConfig) -> bool:
    """Return True if the config has the plan put in force; the built-in trainer follows it by itself."""
    return config.command is not None and (config.fixers.model_extra or {}).get("runtime") == "auto"


def runtime_of(view: View) -> dict[str, str]:
    """Return the environment variables that put the view's precision plan in force; nothing if that is not wanted."""
    return runtime_environment(view.precision) if wants_runtime(view.config) else {}


def describe_runtime(view: View) -> str:
    """Return a line for the user; empty if the runtime is off."""
    if not wants_runtime(view.config):
        return ""
    mode = view.precision.mode.value
    if not runtime_of(view):
        return f"runtime: auto changes nothing in precision {mode}"
    return f"runtime: auto puts {mode} in force inside the training process (pipeline explain runtime)"
