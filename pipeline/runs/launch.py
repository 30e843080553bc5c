"""The command and the environment of a run, as changed by the source fixers for the run's card. Pure.

A job's command comes from the config on the laptop, not from the rewritten copy on the host: the config may have
overrides and cures, or may be outside of the project. The fixers therefore also change this command and environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from pipeline.loading import LazyModule
from pipeline.runs.fixes import site_of
from pipeline.runs.view import View

if TYPE_CHECKING:
    from fixers.plans import launch_plan
    from fixers.settings import launch_text
else:
    launch_plan = LazyModule("fixers.plans.launch_plan")
    launch_text = LazyModule("fixers.settings.launch_text")


def launch_of(view: View) -> launch_text.Launch:
    """Return the command and environment for the view's card. They are unchanged if no fixer applies."""
    return launch_plan.plan_launch(_given(view), site_of(view, None))


def _given(view: View) -> launch_text.Launch:
    return launch_text.Launch(view.config.command, {**view.host.config.env, **view.config.env})


def describe_launch_changes(view: View) -> str:
    """Return the changes, such as 'started with --fp16 instead of --bf16', or "" if there are none."""
    given, launch = _given(view), launch_of(view)
    changes = [*_changes(given.command or (), launch.command or ()), *_changes(_pairs(given.env), _pairs(launch.env))]
    return f"started {', '.join(changes)}" if changes else ""


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Yield the changed, inserted and deleted words. Changed words with several lines are skipped."""
    for _, start, stop, new_start, new_stop in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        was, now = before[start:stop], after[new_start:new_stop]
        if len(was) != len(now):
            instead = f" instead of {' '.join(was)}" if was else ""
            yield f"with {' '.join(now)}{instead}" if now else f"without {' '.join(was)}"
        else:
            yield from (f"with {b} instead of {a}" for a, b in zip(was, now, strict=True) if a != b and "\n" not in b)


def _pairs(env: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in env.items()]
