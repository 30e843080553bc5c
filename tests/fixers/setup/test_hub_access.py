"""Why a host cannot download its model, judged from answers of the hub; tested with tables and a fake host."""

import pytest

from fixers.frame.change import Plan
from fixers.setup import hub_access
from fixers.setup.hub_access import judge_access, judge_environment
from remote.errors import RemoteFault
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.hub_access import HubFacts
from remote.protocol.machine import Interpreter
from remote.protocol.values import encode
from tests.fixers.setup_rig import PROJECT, site_at, survey_of
from tests.lab.fake_host import FakeHost

REPO = "lab/speech"


def warning(message, hint="", where=REPO):
    return Finding("hub-access", Severity.WARNING, message, where, hint)


def error(message, hint=""):
    return Finding("hub-access", Severity.ERROR, message, REPO, hint, ExitCode.ENVIRONMENT)


SAYS = "lab/speech is not in the host's cache, and the hub reports"
LICENCE = "accept the model's licence on its page, and add HF_TOKEN to `secrets:`"
NAME_TOKEN = "add HF_TOKEN to `secrets:` of the host or the config"
PUT_ID_RIGHT = "correct the model's id in `fixers.tokenizer.repo`; a private model needs HF_TOKEN"
NO_TOKEN = "; the host has no token"


@pytest.mark.parametrize(
    ("look", "secrets", "finding"),
    [
        (HubFacts(True, "/c", fault="gated", message="m"), (), None),
        (HubFacts(False, "/c"), (), None),
        (HubFacts(False, "/c", fault="gated", message="m"), (), error(f"{SAYS} gated: m{NO_TOKEN}", LICENCE)),
        (
            HubFacts(False, "/c", fault="gated", message="m"),
            ("WANDB_API_KEY",),
            error(f"{SAYS} gated: m{NO_TOKEN}", LICENCE),
        ),
        (HubFacts(False, "/c", fault="gated", message="m"), ("HF_TOKEN",), warning(f"{SAYS} gated: m", LICENCE)),
        (HubFacts(False, "/c", "file", "gated", "m"), ("HF_TOKEN",), error(f"{SAYS} gated: m", LICENCE)),
        (
            HubFacts(False, "/c", fault="unauthorized", message="m"),
            ("HUGGING_FACE_HUB_TOKEN",),
            warning(f"{SAYS} unauthorized: m", NAME_TOKEN),
        ),
        (
            HubFacts(False, "/c", fault="not-found", message="m"),
            (),
            error(f"{SAYS} not-found: m{NO_TOKEN}", PUT_ID_RIGHT),
        ),
        (
            HubFacts(False, "/c", fault="not-found", message="m"),
            ("HF_TOKEN",),
            warning(f"{SAYS} not-found: m", PUT_ID_RIGHT),
        ),
        (
            HubFacts(False, "/c", fault="no-revision", message="m"),
            ("HF_TOKEN",),
            error(f"{SAYS} no-revision: m", "correct `model.revision`"),
        ),
        (
            HubFacts(False, "/c", fault="offline", message="m"),
            (),
            error(
                "lab/speech is not in the host's cache (/c), and HF_HUB_OFFLINE forbids the download",
                "unset HF_HUB_OFFLINE for one run",
            ),
        ),
        (
            HubFacts(False, "/c", fault="unreachable", message="m"),
            ("HF_TOKEN",),
            error(f"{SAYS} unreachable: m", "set HF_ENDPOINT to a mirror that the host can reach"),
        ),
        (
            HubFacts(False, "/c", fault="rate-limited", message="m"),
            (),
            warning(f"{SAYS} rate-limited: m", "run the command again in a few minutes, or set HF_TOKEN"),
        ),
        (
            HubFacts(False, "/c", fault="no-library", message="m"),
            (),
            warning(f"{SAYS} no-library: m", "pip install huggingface_hub"),
        ),
        (HubFacts(False, "/c", fault="server", message="m"), (), warning(f"{SAYS} server: m")),
        (HubFacts(False, "/c", fault="strange", message="m"), (), error(f"{SAYS} strange: m")),
    ],
)
def test_each_answer_of_the_hub_is_judged_as_listed(look, secrets, finding):
    assert judge_access(REPO, look, secrets) == (() if finding is None else (finding,))


TOKEN_WARNING = warning("HF_TOKEN is set in env:", "secrets: [HF_TOKEN]", "HF_TOKEN")


def test_a_token_in_env_is_reported_without_its_value():
    assert judge_environment({"A": "1"}) == ()
    assert judge_environment({"HF_TOKEN": "hf_secret", "A": "1"}) == (TOKEN_WARNING,)
    assert [finding.where for finding in judge_environment(("HUGGING_FACE_HUB_TOKEN", "HF_TOKEN"))] == [
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
    ]


def asked_of(look, **known):
    """Return the plan, and the requests to the host."""
    asked = []

    def answer(args):
        asked.append(args)
        if isinstance(look, Exception):
            raise look
        return encode(look)

    host = FakeHost(operations={"fix.hub.look": answer})
    config = {"model": {"id": REPO, "revision": "abc"}, **known.pop("config", {})}
    return hub_access.plan(site_at(known.pop("host", host), **{"config": config, **known})), asked


GATED = HubFacts(False, "/c", fault="gated", message="m")


def test_the_host_queries_the_configs_model_with_its_own_environment():
    survey = survey_of(interpreter=Interpreter("/v/bin/python"))
    plan, asked = asked_of(GATED, survey=survey, environment={"HF_HOME": "/hf"}, config={"secrets": ["HF_TOKEN"]})
    assert plan == Plan((warning(f"{SAYS} gated: m", LICENCE),))
    assert asked == [
        {
            "project": PROJECT.key,
            "python": "/v/bin/python",
            "environment": {"HF_HOME": "/hf"},
            "repo": REPO,
            "revision": "abc",
        }
    ]


@pytest.mark.parametrize(
    ("config", "revision"), [({"model": {"id": REPO}}, ""), ({"model": {"id": REPO, "revision": None}}, "")]
)
def test_a_model_without_a_revision_is_queried_without_one(config, revision):
    plan, (asked,) = asked_of(GATED, config=config)
    assert asked["revision"] == revision
    assert plan.findings == (error(f"{SAYS} gated: m{NO_TOKEN}", LICENCE),)


@pytest.mark.parametrize("survey", [None, survey_of(interpreter=Interpreter("/v/bin/python", error="gone"))])
def test_an_interpreter_that_cannot_be_run_is_not_named(survey):
    _, (asked,) = asked_of(GATED, survey=survey)
    assert asked["python"] == ""


@pytest.mark.parametrize(
    "known",
    [
        {"host": None},
        {"project": None},
        {"config": {"model": None}},
        {"config": {"model": {"id": ""}}},
        {"config": {"model": {"id": "./model"}}},
        {"config": {"model": {}}, "settings": {"tokenizer": {"repo": REPO}}},
    ],
)
def test_a_token_in_env_is_reported_even_without_a_hub_query(known):
    assert asked_of(GATED, environment={"HF_TOKEN": "x"}, **known) == (Plan((TOKEN_WARNING,)), [])


def test_a_hub_that_was_not_queried_is_a_warning_beside_the_other_findings():
    fault = RemoteFault("it hung", kind="timeout", exit_code=ExitCode.TEMPORARY)
    plan, _ = asked_of(fault, environment={"HF_TOKEN": "x"})
    assert plan == Plan((TOKEN_WARNING, warning("the hub was not queried: it hung")))
    planned, _ = asked_of(GATED, environment={"HF_TOKEN": "x"})
    assert planned == Plan((TOKEN_WARNING, error(f"{SAYS} gated: m{NO_TOKEN}", LICENCE)))
