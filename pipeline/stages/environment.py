"""Stage `environment`: Python, torch build, driver, cards, disk and memory are what this run needs."""

from __future__ import annotations

import time

from pipeline.stages.readiness import Need, facts_of, judge_host
from pipeline.stages.stage import Context, Done, Inputs
from pipeline.stages.view import View
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity

FREE_BYTES = 5 * 10**9
FREE_BYTES_OF_TINY = 500 * 10**6


class Environment:
    """What the host is, judged against what the config asks."""

    name = "environment"
    exit_code = ExitCode.ENVIRONMENT

    def inputs(self, view: View) -> Inputs:
        return {
            "machine": view.survey.machine.machine_id or view.survey.machine.hostname,
            **dict(facts_of(view.survey)),
        }

    def check(self, view: View) -> Report:
        return judge_host(view.survey, need_of(view))

    def holds(self, view: View) -> str:
        return in_words(view)

    def run(self, context: Context) -> Done:
        """Asks the interpreter itself (its torch, its card) and writes for real; the host remembers the answer."""
        context.telling.progress("asking the interpreter for its torch and its card")
        answer = context.host.act(
            "environment.probe", {"project": context.view.layout.key, "python": context.view.host.config.python or ""}
        )
        skew = judge_host(context.view.survey, need_of(context.view), time.time())
        return Done(Report(_told(answer)).and_also(skew), in_words(context.view))


def need_of(view: View) -> Need:
    """What this config asks of a host."""
    config = view.loaded.config
    tiny = config.model is not None and config.model.id.startswith("tiny/")
    return Need(
        free_bytes=FREE_BYTES_OF_TINY if tiny else FREE_BYTES,
        built_in_trainer=config.command is None,
        gpus_named=view.host.config.gpus is not None and view.host.config.card is None,
    )


def in_words(view: View) -> str:
    """The environment in one phrase."""
    facts = dict(facts_of(view.survey))
    cards = facts["gpus"] if view.survey.gpus else "no card"
    return f"Python {facts['python']}, torch {facts['torch']}, {cards}"


def _told(answer: dict[str, object]) -> tuple[Finding, ...]:
    findings = answer.get("problems", [])
    if not isinstance(findings, list):
        return ()
    return tuple(
        Finding(
            str(f.get("check", "environment")),
            Severity(f.get("severity", "error")),
            str(f.get("message", "")),
            str(f.get("where", "")),
            str(f.get("hint", "")),
            ExitCode(f.get("exit_code", ExitCode.ENVIRONMENT)),
        )
        for f in findings
    )
