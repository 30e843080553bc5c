"""Stage `environment`: Python, torch build, driver, cards, disk and memory are what this run needs."""

from __future__ import annotations

from pipeline.config.model import RunConfig
from pipeline.hosts.connection import survey_request
from pipeline.judgements.host import Need, card_name, facts_of, judge_host
from pipeline.judgements.trial import judge_trial
from pipeline.records.inputs import Inputs
from pipeline.stages.stage import Context, Done
from pipeline.work.acts import carry_out
from pipeline.work.fixes import acts_of, plan_for
from pipeline.work.run_id import machine_inputs
from pipeline.work.view import View
from remote.operations.jobs import probe_environment
from remote.policy.cards import is_promised
from remote.protocol.environment import EnvironmentRequest
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Report, Severity

USUAL_BYTES = 5 * 10**9
"""A base model's cache and the checkpoints of one run; what a project's own command takes, nobody can know."""
FREE_BYTES_OF_TINY = 500 * 10**6
FREE_BYTES_OF_COMMAND = 100 * 10**6
TRAINER_IMPORTS = ("torch", "transformers", "peft")


class Environment:
    """What the host is, judged against what the config asks."""

    name = "environment"
    exit_code = ExitCode.ENVIRONMENT

    def inputs(self, view: View) -> Inputs:
        return machine_inputs(view)

    def check(self, view: View) -> Report:
        return judge_host(view.survey, need_of(view), view.seen_unix)

    def holds(self, view: View) -> str:
        return in_words(view)

    def run(self, context: Context) -> Done:
        """Makes the environment where the config asks for one; then asks the interpreter itself (its torch, its card)
        and writes for real; the host remembers the answer."""
        view = context.view
        plan = plan_for(view, context.host, only=("environment",))
        for change in acts_of(plan):
            carry_out(change, context.host, context.listener)
        context.listener.progress("asking the interpreter for its torch and its card")
        request = survey_request(view.host, view.layout.key)
        need = need_of(view)
        packages = TRAINER_IMPORTS if need.built_in_trainer else ("torch",)
        asked = EnvironmentRequest(
            view.layout.key, request.python, request.gpus, dict(view.host.config.env), packages=packages
        )
        facts = probe_environment(context.host, asked)
        report = Report(tuple(judge_trial(facts, need, view.survey.driver)))
        told = {finding.message for finding in report.findings}
        # Why no environment can be made comes first: it says what to write in the host's file.
        asked_for = [one for one in plan.findings if one.severity is Severity.ERROR and one.message not in told]
        return Done(Report((*asked_for, *report.findings)))


def need_of(view: View) -> Need:
    """What this config asks of a host."""
    config, host = view.loaded.config, view.host
    promised = is_promised(
        view.survey.gpus, gpus=host.config.gpus, card=host.config.card, elsewhere=host.config.scheduler is not None
    )
    return Need(
        free_bytes=_free_bytes(config),
        built_in_trainer=config.command is None,
        gpus_named=promised,
        usual_bytes=USUAL_BYTES if config.command is not None else 0,
        host_file=str(host.path) if host.path is not None else "host.python",
    )


def _free_bytes(config: RunConfig) -> int:
    if config.command is not None:
        return FREE_BYTES_OF_COMMAND
    tiny = config.model is not None and config.model.id.startswith("tiny/")
    return FREE_BYTES_OF_TINY if tiny else USUAL_BYTES


def in_words(view: View) -> str:
    """The environment in one phrase."""
    facts = dict(facts_of(view.survey))
    cards = ", ".join(card_name(gpu) + " (assumed)" * gpu.assumed for gpu in view.survey.gpus) or "no card"
    return f"Python {facts['python']}, torch {facts['torch']}, {cards}"
