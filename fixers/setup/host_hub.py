"""Requests to the model hub through huggingface_hub on the host."""

from __future__ import annotations

from typing import Any

from fixers.frame.site import Site
from remote.errors import RemoteFault
from remote.host import read_answer
from remote.protocol.tokenizer_files import HubTree

TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def hub_request(site: Site) -> dict[str, Any]:
    """Return the request fields common to hub and tokenizer operations: project key, interpreter and environment.

    The environment includes the job's hub token. The token is sent over the connection and never stored.
    """
    assert site.project is not None
    interpreter = site.survey.interpreter if site.survey else None
    python = interpreter.path if interpreter and not interpreter.error else ""
    tokens = {name: site.secrets[name] for name in TOKENS if name in site.secrets}
    environment = {**site.environment, **tokens}
    return {"project": site.project.key, "python": python, "environment": environment}


class HostHub:
    """The file lists of hub repositories, requested once per repository and revision."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._known: dict[tuple[str, str], HubTree] = {}

    def tree(self, repo: str, revision: str) -> HubTree:
        key = (repo, revision)
        if key not in self._known:
            self._known[key] = self._request_tree(repo, revision)
        return self._known[key]

    def _request_tree(self, repo: str, revision: str) -> HubTree:
        host = self._site.host
        assert host is not None
        common = hub_request(self._site)
        if not common["python"]:
            message = "the project's interpreter does not run, so the hub was not queried"
            return HubTree(fault="no-library", message=message)
        request = {**common, "repo": repo, "revision": revision}
        try:
            return read_answer(HubTree, host, host.ask("fix.tokenizer.hub", request, timeout_s=90.0))
        except RemoteFault as fault:
            return HubTree(fault="no-library", message=fault.message)
