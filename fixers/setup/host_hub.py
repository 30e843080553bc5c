"""The model hub, asked by the host's own huggingface_hub."""

from __future__ import annotations

from typing import Any

from fixers.frame.site import Site
from remote.errors import RemoteFault

TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def asking(site: Site) -> dict[str, Any]:
    """What every question about hub and tokenizers says of the project: its key, interpreter and environment.

    A token of the hub that the job will be given goes with it; it travels within the connection and is kept nowhere.
    """
    assert site.project is not None
    interpreter = site.survey.interpreter if site.survey else None
    python = interpreter.path if interpreter and not interpreter.error else ""
    tokens = {name: site.secrets[name] for name in TOKENS if name in site.secrets}
    environment = {**site.environment, **tokens}
    return {"project": site.project.key, "python": python, "environment": environment}


class HostHub:
    """What the hub told the host, asked once per repository and revision."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._known: dict[tuple[str, str], dict[str, Any]] = {}

    def tree(self, repo: str, revision: str) -> dict[str, Any]:
        key = (repo, revision)
        if key not in self._known:
            self._known[key] = self._ask(repo, revision)
        return self._known[key]

    def _ask(self, repo: str, revision: str) -> dict[str, Any]:
        assert self._site.host is not None
        common = asking(self._site)
        if not common["python"]:
            return {
                "fault": "no-library",
                "message": "the project's interpreter cannot be run, so the hub was not asked",
            }
        request = {**common, "repo": repo, "revision": revision}
        try:
            return self._site.host.ask("fix.tokenizer.hub", request, timeout_s=90.0)
        except RemoteFault as fault:
            return {"fault": "no-library", "message": fault.message}
