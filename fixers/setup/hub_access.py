"""hub-access: the model can be had on the host before the run needs it: token, licence, offline switch, mirror.

What it does
    Where the config's model is a hub's, looks whether the host has it in its cache. If not, asks the hub as training
    would, with the host's token, HF_ENDPOINT and HF_HUB_OFFLINE, and says what stands in the way. A token written in
    `env:` is told: it belongs in `secrets:`.

Why
    `You are trying to access a gated repo` comes after the queue, the copy and the set-up. Offline mode with an empty
    cache, a mirror that does not answer and a revision that does not exist come as late.

Before
    HF_HUB_OFFLINE=1, and nothing cached

After
    the model in the host's cache, or a token that may read it

What it can break
    Nothing: it only tells. Licences are accepted by people, and tokens are theirs.

How to undo
    Nothing to undo.
"""

from __future__ import annotations

from collections.abc import Collection

from fixers.frame.change import Plan
from fixers.frame.findings import error, warning
from fixers.frame.site import Site
from fixers.setup.host_hub import TOKENS, asking
from fixers.setup.tokenizer import HINTS, origin_of
from remote.errors import RemoteFault
from remote.host import read_answer
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.hub_access import HubFacts

name = "hub-access"
version = 1
safety = "safe"

TOLD_ONLY = ("rate-limited", "no-library", "server")


def plan(site: Site) -> Plan:
    """What keeps the host from the model."""
    found = judge_environment(site.environment)
    model = site.config.get("model") or {}
    repo = origin_of(site).repo if model.get("id") else ""
    if site.host is None or site.project is None or not repo:
        return Plan(found)
    request = {**asking(site), "repo": repo, "revision": str(model.get("revision") or "")}
    try:
        look = read_answer(HubFacts, site.host, site.host.ask("fix.hub.look", request, timeout_s=90.0))
    except RemoteFault as fault:
        return Plan((*found, warning(name, f"the hub was not asked: {fault.message}", repo)))
    return Plan((*found, *judge_access(repo, look, site.config.get("secrets") or ())))


def judge_environment(environment: Collection[str]) -> tuple[Finding, ...]:
    """A token in `env:` would lie in files and logs."""
    return tuple(
        warning(name, f"{token} is written in env:", token, f"secrets: [{token}]")
        for token in TOKENS
        if token in environment
    )


def judge_access(repo: str, look: HubFacts, secrets: Collection[str]) -> tuple[Finding, ...]:
    """What stands in the way. A token that is named and not here cannot be tried: what it may open is a warning."""
    if look.cached or not look.fault:
        return ()
    given_later = not look.token and any(token in secrets for token in TOKENS)
    closed = look.fault in ("gated", "unauthorized", "not-found")
    message = f"{repo} is not in the host's cache, and the hub says {look.fault}: {look.message}"
    if look.fault == "offline":
        message = f"{repo} is not in the host's cache ({look.cache}), and HF_HUB_OFFLINE forbids to fetch it"
    if closed and not look.token and not given_later:
        message += "; the host has no token"
    hint = HINTS.get(look.fault, "")
    if (closed and given_later) or look.fault in TOLD_ONLY:
        return (warning(name, message, repo, hint),)
    return (error(name, message, repo, hint, exit_code=ExitCode.ENVIRONMENT),)
