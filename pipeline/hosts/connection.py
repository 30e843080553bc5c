"""A named host over its one connection: its address, the open line, one look at it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from pipeline.config.hosts import LoadedHost
from pipeline.config.model import HostConfig
from remote.errors import NameUnknown
from remote.host import Host
from remote.link.address import LOCAL, Address
from remote.link.ask import Ask
from remote.link.reach import open_host
from remote.operations.jobs import take_survey
from remote.policy.cards import parse_card
from remote.protocol.survey import Survey, SurveyRequest


def address_of(host: LoadedHost) -> Address:
    """How the host is reached."""
    config = host.config
    return Address(
        name=host.name,
        host=config.host,
        port=config.port,
        user=config.user,
        identity_file=config.identity_file,
        known_hosts=config.known_hosts,
        host_key=config.host_key,
        proxy_jump=config.proxy_jump,
        workdir=config.workdir,
        python=python_of(config),
        container=config.container,
        scheduler=config.scheduler,
        env=config.env,
    )


@contextlib.contextmanager
def connected(host: LoadedHost, *, keep: bool, ask: Ask | None = None) -> Iterator[Host]:
    """The host, its connection closed at the end of the block. `keep` False leaves nothing of ours behind.

    Raises NameUnknown with the nearest name that is known here, beside whatever the block raises.
    """
    link = open_host(address_of(host), keep=keep, ask=ask)
    try:
        yield link
    except NameUnknown as error:
        if host.near and error.where == host.config.host:
            error.instead = (host.name, host.near[0])
        raise
    finally:
        link.close()


def look(host: Host, named: LoadedHost, project: str) -> Survey:
    """The host at this moment, in one exchange."""
    return take_survey(host, survey_request(named, project))


def survey_request(host: LoadedHost, project: str) -> SurveyRequest:
    """What one look at the host asks for."""
    config = host.config
    return SurveyRequest(
        project=project,
        python=python_of(config),
        gpus=config.gpus,
        card=parse_card(config.card) if config.card is not None else None,
    )


def python_of(config: HostConfig) -> str:
    """The interpreter that is to train: the host file's, here our own; empty: the project's there, else its PATH's."""
    return config.python or (sys.executable if config.host == LOCAL else "")
