"""hub-access: problems that prevent the model's download (token, licence, offline mode, mirror) are reported early.

What it does
    Checks whether the host's cache contains the model. If not, queries the hub as the training would, with the host's
    token, HF_ENDPOINT and HF_HUB_OFFLINE, and reports what prevents the download. A token in `env:` is reported too: it
    belongs in `secrets:`.

Why
    Without this check, `You are trying to access a gated repo` appears only after queueing, copying and setup. Offline
    mode with an empty cache, an unreachable mirror or a missing revision would also stop the run only at that point.

Before
    HF_HUB_OFFLINE=1 and an empty cache

After
    the model in the host's cache, or a token with access to it

What it can break
    Nothing: this fixer only reports.

How to undo
    Nothing to undo.
"""

from __future__ import annotations

from collections.abc import Collection

from fixers.frame.change import Plan
from fixers.frame.findings import error, warning
from fixers.frame.site import Site
from fixers.setup.host_hub import TOKENS, hub_request
from fixers.setup.tokenizer import HINTS, origin_of
from remote.errors import RemoteFault
from remote.host import read_answer
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.hub_access import HubFacts

name = "hub-access"
safety = "safe"

WARNING_ONLY = ("rate-limited", "no-library", "server")


def plan(site: Site) -> Plan:
    """Report problems that prevent the host from downloading the model."""
    findings = judge_environment(site.environment)
    model = site.config.get("model") or {}
    repo = origin_of(site).repo if model.get("id") else ""
    if site.host is None or site.project is None or not repo:
        return Plan(findings)
    request = {**hub_request(site), "repo": repo, "revision": str(model.get("revision") or "")}
    try:
        look = read_answer(HubFacts, site.host, site.host.ask("fix.hub.look", request, timeout_s=90.0))
    except RemoteFault as fault:
        return Plan((*findings, warning(name, f"the hub was not queried: {fault.message}", repo)))
    return Plan((*findings, *judge_access(repo, look, site.config.get("secrets") or ())))


def judge_environment(environment: Collection[str]) -> tuple[Finding, ...]:
    """Return a warning for each token in `env:`, because the values of `env:` are stored in files and logs."""
    return tuple(
        warning(name, f"{token} is set in env:", token, f"secrets: [{token}]")
        for token in TOKENS
        if token in environment
    )


def judge_access(repo: str, look: HubFacts, secrets: Collection[str]) -> tuple[Finding, ...]:
    """Return the findings about access to the model.

    They are warnings if the query could not use a configured token.
    """
    if look.cached or not look.fault:
        return ()
    token_configured = not look.token and any(token in secrets for token in TOKENS)
    access_denied = look.fault in ("gated", "unauthorized", "not-found")
    message = f"{repo} is not in the host's cache, and the hub reports {look.fault}: {look.message}"
    if look.fault == "offline":
        message = f"{repo} is not in the host's cache ({look.cache}), and HF_HUB_OFFLINE forbids the download"
    if access_denied and not look.token and not token_configured:
        message += "; the host has no token"
    hint = HINTS.get(look.fault, "")
    if (access_denied and (token_configured or look.withheld)) or look.fault in WARNING_ONLY:
        return (warning(name, message, repo, hint),)
    return (error(name, message, repo, hint, exit_code=ExitCode.ENVIRONMENT),)
