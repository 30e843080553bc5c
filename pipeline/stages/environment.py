"""Stage `environment`: the host's Python, torch build, driver, cards, disk and memory are sufficient for the run."""

from __future__ import annotations

from dataclasses import replace

from fixers.frame.change import Plan
from fixers.setup.environment import contents_of, is_requested
from fixers.setup.imported_modules import imports_of_script, lacking_with_only_torch, packages_of
from fixers.setup.project_packages import PYPROJECT, REQUIREMENTS
from pipeline.config.model import RunConfig
from pipeline.hosts.connection import survey_request
from pipeline.judgements.host import NEW_ENVIRONMENT, Need, card_name, facts_of, judge_host
from pipeline.judgements.trackers import judge_trackers
from pipeline.judgements.trial import judge_trial
from pipeline.records.inputs import Inputs
from pipeline.runs.backend import srun_options
from pipeline.runs.fixes import fixer_settings_of, host_changes_of, plan_for, site_of, unparsable_sources
from pipeline.runs.host_changes import apply_host_change
from pipeline.runs.run_id import machine_inputs
from pipeline.runs.secrets import secrets_of
from pipeline.runs.view import View
from pipeline.stages.stage import Context, StageResult
from remote.operations.jobs import probe_environment
from remote.policy.cards import requires_card
from remote.protocol.environment import EnvironmentRequest
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity

USUAL_BYTES = 5 * 10**9
"""Disk space for a base model's cache and the checkpoints of one run."""
FREE_BYTES_OF_TINY = 500 * 10**6
FREE_BYTES_OF_COMMAND = 100 * 10**6
TRAINER_IMPORTS = ("torch", "transformers", "peft")


class Environment:
    """Compares the host with the needs of the config."""

    name = "environment"
    exit_code = ExitCode.ENVIRONMENT

    def inputs(self, view: View) -> Inputs:
        contents = contents_of(site_of(view, None))
        return {**machine_inputs(view), **({"requirements": contents} if contents else {})}

    def check(self, view: View) -> Report:
        return judge_host(view.survey, need_of(view), view.seen_unix).plus(tracking_of(view))

    def summary(self, view: View) -> str:
        return describe_environment(view)

    def run(self, context: Context) -> StageResult:
        """Create the virtual environment if the config requests one, then test the interpreter on the host.

        Nothing is created if a source file does not parse, because the stage `fix` would fail. The test imports the
        training packages, computes on each card and writes to the disk. The test's result is cached on the host.
        """
        view = context.view
        plan = plan_for(view, context.host, only=("environment",))
        _note_warnings(plan, context)
        changes = host_changes_of(plan)
        if changes and (unparsable := unparsable_sources(view)):
            return StageResult(Report(unparsable))
        for change in changes:
            context.listener.note(change.summary)
            apply_host_change(change, context.host, context.listener)
        slurm = srun_options(view.host.config, view.config)
        where = " on a compute node" if slurm is not None else ""
        context.listener.progress(f"running the interpreter{where}: importing torch, computing on each card")
        request = survey_request(view.host, view.layout.key)
        need = replace(need_of(view), creates_environment=False, lists_packages=True)
        packages = TRAINER_IMPORTS if need.built_in_trainer else ("torch",)
        probe = EnvironmentRequest(
            view.layout.key, request.python, request.gpus, dict(view.host.config.env), packages=packages, slurm=slurm
        )
        facts = probe_environment(context.host, probe)
        report = Report(tuple(judge_trial(facts, need, view.survey.driver)))
        known = {finding.message for finding in report.findings}
        # The fixer's errors come first, because their hints say what to write into the host file.
        unmade = [one for one in plan.findings if one.severity is Severity.ERROR and one.message not in known]
        tested = tuple(map(_without_advice, report.findings)) if unmade else report.findings
        return StageResult(Report((*unmade, *tested)).plus(tracking_of(context.view)))


def _note_warnings(plan: Plan, context: Context) -> None:
    for finding in plan.findings:
        if finding.severity is Severity.WARNING:
            context.listener.note(f"{finding.message}; {finding.hint}" if finding.hint else finding.message)


def _without_advice(finding: Finding) -> Finding:
    """Return the finding without the hint to create an environment, which was attempted."""
    return replace(finding, hint="") if finding.hint == NEW_ENVIRONMENT else finding


def tracking_of(view: View) -> Report:
    """Return a warning for each tracker of `train.report_to` that will receive no data."""
    config, host = view.loaded.config, view.host.config
    env = {**host.env, **config.env}
    return Report(tuple(judge_trackers(config, view.survey.interpreter, env, secrets_of(host, config))))


def need_of(view: View) -> Need:
    """Return the requirements of this config on its host."""
    config, host = view.loaded.config, view.host
    required = requires_card(
        view.survey.driver,
        view.survey.gpus,
        gpus=host.config.gpus,
        card=host.config.card,
        elsewhere=host.config.scheduler is not None,
    )
    listed = config.command is None or not view.scan.manifest.rows.keys().isdisjoint((REQUIREMENTS, PYPROJECT))
    script, packages = ("", ()) if listed else _packages_of_script(view)
    return Need(
        free_bytes=_free_bytes(config),
        built_in_trainer=config.command is None,
        card_required=required,
        usual_bytes=USUAL_BYTES if config.command is not None else 0,
        host_file=str(host.path) if host.path is not None else "host.python",
        creates_environment=is_requested(fixer_settings_of(view).get("environment")),
        lists_packages=listed or (bool(script) and not packages),
        script_packages=packages,
    )


def _packages_of_script(view: View) -> tuple[str, tuple[str, ...]]:
    """Return the script, and the packages besides torch that it imports, if the host lacks torch."""
    if view.survey.interpreter.torch is not None:
        return "", ()
    script, modules = imports_of_script(view.scan, view.config.command or ())
    return script, tuple(dict.fromkeys(packages_of(lacking_with_only_torch(modules))))


def _free_bytes(config: RunConfig) -> int:
    if config.command is not None:
        return FREE_BYTES_OF_COMMAND
    tiny = config.model is not None and config.model.id.startswith("tiny/")
    return FREE_BYTES_OF_TINY if tiny else USUAL_BYTES


def describe_environment(view: View) -> str:
    """Return 'Python 3.11.7, torch 2.13.0, TITAN RTX', and the image by digest if there is a container."""
    facts = dict(facts_of(view.survey))
    cards = ", ".join(card_name(gpu) + " (assumed)" * gpu.assumed for gpu in view.survey.gpus) or "no card"
    image = f", image {facts['image']}" if "image" in facts else ""
    return f"Python {facts['python']}, torch {facts['torch']}, {cards}{image}"
