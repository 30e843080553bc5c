"""Whether /dev/shm of a container is large enough for a run, as tables."""

import pytest

from fixers.frame.change import Plan
from fixers.setup import shared_memory
from fixers.setup.shared_memory import judge_shared_memory
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from tests.fixers.setup_rig import machine, site_at, survey_of

MIB, GIB = 2**20, 2**30


def finding(severity, message, code=ExitCode.OK):
    return Finding("shared-memory", severity, message, "/dev/shm", "docker run --shm-size 8g, or --ipc=host", code)


def warning(size):
    return finding(
        Severity.WARNING, f"/dev/shm has {size} MiB; 1 process(es) and their data workers need 256 MiB", ExitCode.OK
    )


def error(size, processes):
    message = f"/dev/shm has {size} MiB; {processes} process(es) and their data workers need 1024 MiB"
    return finding(Severity.ERROR, message, ExitCode.ENVIRONMENT)


@pytest.mark.parametrize(
    ("container", "size", "processes", "findings"),
    [
        (True, 64 * MIB, 1, (warning(64),)),
        (True, 256 * MIB - 1, 1, (warning(255),)),
        (True, 256 * MIB, 1, ()),
        (True, 64 * MIB, 2, (error(64, 2),)),
        (True, GIB - 1, 2, (error(1023, 2),)),
        (True, GIB, 2, ()),
        (True, 512 * MIB, 8, (error(512, 8),)),
        (True, 8 * GIB, 8, ()),
        (False, 64 * MIB, 1, ()),
        (False, 64 * MIB, 8, ()),
    ],
)
def test_shared_memory_is_compared_with_the_data_that_passes_through_it(container, size, processes, findings):
    assert judge_shared_memory(machine(container=container, shm_bytes=size), processes) == findings


@pytest.mark.parametrize(
    ("config", "findings"),
    [({"processes": 2}, (error(64, 2),)), ({"processes": None}, (warning(64),)), ({}, (warning(64),))],
)
def test_the_number_of_processes_is_that_of_the_config_or_one(config, findings):
    survey = survey_of(machine=machine(container=True, shm_bytes=64 * MIB))
    assert shared_memory.plan(site_at(None, survey=survey, config=config)) == Plan(findings)


def test_without_a_survey_there_is_no_finding():
    assert shared_memory.plan(site_at(None, survey=None)) == Plan()
