"""Connect to a configured host and survey it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import python_of
from pipeline.hosts.trust import local_confirmation, require_trust, trusted_address
from pipeline.loading import LazyModule
from remote.errors import NameUnknown
from remote.host import Host
from remote.link.prompter import Prompter
from remote.link.reach import open_host
from remote.policy.cards import parse_card
from remote.protocol.survey import Survey, SurveyRequest

# The connection begins before this import.
if TYPE_CHECKING:
    from remote.operations import jobs
else:
    jobs = LazyModule("remote.operations.jobs")


@contextlib.contextmanager
def connected(host: LoadedHost, *, keep: bool, prompter: Prompter | None = None) -> Iterator[Host]:
    """Connect to the host until the end of the block. With `keep` False, no files remain on the host.

    Raises HostFileUntrusted before data is sent, and NameUnknown with the most similar known name.
    """
    require_trust(host, prompter)
    confirm_local = local_confirmation(host, prompter)
    link = open_host(trusted_address(host), keep=keep, prompter=prompter, confirm_local=confirm_local)
    try:
        yield link
    except NameUnknown as error:
        if host.similar_names and error.where == host.config.host:
            error.instead = (host.name, host.similar_names[0])
        raise
    finally:
        link.close()


def survey_host(host: Host, named: LoadedHost, project: str) -> Survey:
    """Survey the host with one request."""
    return jobs.take_survey(host, survey_request(named, project))


def survey_request(host: LoadedHost, project: str) -> SurveyRequest:
    """Return the request for a survey of the host."""
    config = host.config
    return SurveyRequest(
        project=project,
        python=python_of(config),
        gpus=config.gpus,
        card=parse_card(config.card) if config.card is not None else None,
        python_path=config.env.get("PYTHONPATH"),
    )
