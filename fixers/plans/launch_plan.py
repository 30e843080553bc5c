"""Plan the fixes of a launch: how source fixers change the argv and the environment of a job."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from fixers.code import trainer_arguments
from fixers.frame.site import Site
from fixers.frame.source_fixer import Rewrite, SourceFixer
from fixers.frame.target import Target
from fixers.plans.chosen_fixers import chosen_names
from fixers.plans.file_facts import read_files
from fixers.plans.site_plan import applies, full_target
from fixers.settings import launch_flags, mixed_precision_config, port
from fixers.settings.launch_text import Launch, LaunchText, launch_from, read_launch
from fixers.sources.splice import EditRefused, splice


class LaunchFixer(SourceFixer, Protocol):
    """A source fixer that also edits the launch of a job, by the same rules as for files."""

    def rewrite_launch(self, launch: LaunchText, target: Target) -> Rewrite: ...


FIXERS: tuple[LaunchFixer, ...] = (trainer_arguments, mixed_precision_config, launch_flags, port)
"""The fixers that edit launches, in the order of the registry."""


def plan_launch(launch: Launch, site: Site) -> Launch:
    """Return the launch with the edits of all fixers that the site selects."""
    data = read_launch(launch).data
    if not any(needle in data for fixer in FIXERS for needle in fixer.needles):
        return launch
    chosen, target = chosen_names(site, None), full_target(site, read_files(site.tree))
    for fixer in FIXERS:
        if fixer.name in chosen and applies(fixer, target):
            text = read_launch(launch)
            with suppress(EditRefused):
                launch = launch_from(splice(text.data, fixer.rewrite_launch(text, target).edits), launch)
    return launch
