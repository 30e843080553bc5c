"""Of pip's output, the line that says why the installation failed is chosen, and a next step is named."""

from __future__ import annotations

import os
import sys
from typing import Any, cast

import pytest

from remote.link.host_hints import hint_of_host
from remote.payload.fix.installing import run_command
from remote.payload.fix.pip_failure import (
    ANOTHER_INDEX,
    ANOTHER_SOURCE,
    ANOTHER_VERSION,
    HINTS,
    LOOSEN,
    PREDATES,
    explain_failure,
)
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal

NOTHING_FOUND = """ERROR: Could not find a version that satisfies the requirement no-such (from versions: none)
ERROR: No matching distribution found for no-such

[notice] A new release of pip is available: 23.2.1 -> 26.3
"""
CONFLICT = """Collecting torch==2.9.1
  Downloading torch-2.9.1-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (30 kB)
ERROR: Cannot install torch==1.4.0 and torch==2.9.1 because these package versions have conflicting dependencies.

The conflict is caused by:
    The user requested torch==2.9.1
    The user requested torch==1.4.0

To fix this you could try to:
1. loosen the range of package versions you've specified
2. remove package versions to allow pip to attempt to solve the dependency conflict

ERROR: ResolutionImpossible: for help visit https://pip.example/topics/dependency-resolution/#dealing-with-conflicts
"""
DEPENDENCY = """ERROR: Cannot install a and b==2 because these package versions have conflicting dependencies.

The conflict is caused by:
    The user requested b==2
    a 1.0 depends on b<2

Additionally, some packages in these conflicts have no matching distributions available for your environment:
    b

ERROR: ResolutionImpossible: for help visit https://pip.example/
"""
METADATA = """Collecting numpy==1.17.4 (from -r requirements.txt (line 2))
  Downloading numpy-1.17.4.zip (6.4 MB)
  Preparing metadata (setup.py): started
  Preparing metadata (setup.py): finished with status 'error'
  error: subprocess-exited-with-error

  × python setup.py egg_info did not run successfully.
  │ exit code: 1
  ╰─> [3 lines of output]
      Running from numpy source directory.
      Traceback (most recent call last):
      AttributeError: fcompiler. Did you mean: 'compiler'?
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: metadata-generation-failed

× Encountered error while generating package metadata.
╰─> See above for output.

note: This is an issue with the package mentioned above, not pip.
hint: See above for details.
"""
WHEEL = """Collecting first
Collecting soundthing
  Building wheel for soundthing (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error

  × Building wheel for soundthing (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [5 lines of output]
      running build_ext
      src/a.c:3:10: fatal error: Python.h: No such file or directory
          3 | #include <Python.h>
      compilation terminated.
      error: command '/usr/bin/gcc' failed with exit code 1
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for soundthing
Failed to build soundthing
ERROR: Failed to build installable wheels for some pyproject.toml based projects (soundthing)
"""
NESTED = """Collecting outer
  × Installing build dependencies did not run successfully.
  ╰─> [9 lines of output]
      Collecting inner
        × Getting requirements to build wheel did not run successfully.
        ╰─> [2 lines of output]
            Traceback (most recent call last):
            ModuleNotFoundError: No module named 'distutils'
            [end of output]

        note: This error originates from a subprocess, and is likely not a problem with pip.
      ERROR: Failed to build 'inner' when getting requirements to build wheel
      [end of output]
ERROR: Failed to build 'outer' when installing build dependencies for outer
"""
SURVIVED = """  ╰─> [1 line of output]
      ValueError: no wheel
      [end of output]
  ERROR: Failed building wheel for old
Installing collected packages: old
ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: '/x'
"""
BROKEN = "Failed to establish a new connection: [Errno -2] Name or service not known"
RETRY = "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by"
UNREACHABLE = f"""{RETRY} 'NewConnectionError('<HTTPSConnection object at 0x7f2c>: {BROKEN}')': /simple/six/
ERROR: Could not find a version that satisfies the requirement six (from versions: none)
ERROR: No matching distribution found for six
"""
OTHER_URLLIB = "(\"HTTPSConnection(host='index', port=443)"
UNREACHABLE_TOO = UNREACHABLE.replace("('<HTTPSConnection object at 0x7f2c>", OTHER_URLLIB).replace("n')'", "n\")'")
NO_HOST = """Collecting git+https://git.example/x/y.git
  Cloning https://git.example/x/y.git to /tmp/pip-req-build-c7ez89fe
  Running command git clone --filter=blob:none --quiet https://git.example/x/y.git /tmp/pip-req-build-c7ez89fe
  fatal: unable to access 'https://git.example/x/y.git/': Could not resolve host: git.example
  error: subprocess-exited-with-error

  × git clone --filter=blob:none --quiet https://git.example/x/y.git /tmp/pip-req-build-c7ez89fe did not run.
  │ exit code: 128
  ╰─> See above for output.

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error
"""
SSH = "Could not resolve hostname git.example: Name or service not known"
NO_SSH = f"""Collecting pkg @ git+ssh://git@git.example/x/y.git
  Running command git clone --filter=blob:none --quiet 'ssh://git@git.example/x/y.git' /tmp/pip-req-build-c7ez89fe
  ssh: {SSH}
  fatal: Could not read from remote repository.
error: subprocess-exited-with-error
"""
OLD = """ERROR: Could not find a version that satisfies the requirement {0} (from versions: {1})
ERROR: No matching distribution found for {0}
"""
NUMPY = "numpy==1.17.4 (requirements.txt:2)"
COPIED = """Collecting torch
Collecting numpy==1.17.4 (from -r /w/tmp.halfstep/0-0-requirements.txt (line 2))
  ╰─> [1 line of output]
      NameError: CCompiler
      [end of output]
ERROR: Failed to build 'numpy' when getting requirements to build wheel
"""
EXCLUDED = "because these package versions have conflicting dependencies"
CUDA_HOME = METADATA.replace("AttributeError: fcompiler.", "OSError: CUDA_HOME environment variable is not set.")


CLONED = """Collecting {}
  Cloning https://git.example/x/y.git (to revision v1) to /tmp/pip-req-build-1vpyc2qe
  fatal: unable to access 'https://git.example/x/y.git/': Could not resolve host: git.example
  error: subprocess-exited-with-error
"""
URL = "git+https://git.example/x/y.git@v1"


@pytest.mark.parametrize(
    ("collecting", "requirement", "place"),
    [
        (f"{URL} (from -r requirements.txt (line 6))", f"{URL} (requirements.txt:6)", "requirements.txt:6"),
        (f"{URL} (from -r /t/0-1-base.txt (line 2))", f"{URL} (base.txt:2)", "base.txt:2"),
        (f"pkg@ {URL} (from -r requirements.txt (line 6))", "pkg (requirements.txt:6)", "requirements.txt:6"),
        (f"pkg from {URL}#egg=pkg (from -r r.txt (line 1))", "pkg (r.txt:1)", "r.txt:1"),
        (f"pkg @ {URL}", "pkg", ""),
    ],
)
def test_the_line_of_a_repository_that_cannot_be_cloned_is_named(collecting: str, requirement: str, place: str) -> None:
    found = explain_failure(CLONED.format(collecting))
    assert found.reason == f"Could not resolve host: git.example, for the requirement {requirement}"
    assert found.place == place


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        (NOTHING_FOUND, "No matching distribution found for no-such", ANOTHER_VERSION),
        (
            CONFLICT,
            f"Cannot install torch==1.4.0 and torch==2.9.1 {EXCLUDED}: "
            "The user requested torch==2.9.1; The user requested torch==1.4.0",
            LOOSEN,
        ),
        (
            DEPENDENCY,
            f"Cannot install a and b==2 {EXCLUDED}: The user requested b==2; a 1.0 depends on b<2",
            LOOSEN,
        ),
        (
            METADATA,
            f"{NUMPY} could not be built: AttributeError: fcompiler. Did you mean: 'compiler'?. {PREDATES}",
            ANOTHER_VERSION,
        ),
        (
            WHEEL,
            "soundthing could not be built: src/a.c:3:10: fatal error: Python.h: No such file or directory",
            HINTS["fatal error: Python.h"],
        ),
        (
            NESTED,
            f"outer could not be built: ModuleNotFoundError: No module named 'distutils'. {PREDATES}",
            ANOTHER_VERSION,
        ),
        (SURVIVED, "Could not install packages due to an OSError: [Errno 13] Permission denied: '/x'", ""),
        (UNREACHABLE, f"the package index cannot be reached: {BROKEN}", ANOTHER_INDEX),
        (UNREACHABLE_TOO, f"the package index cannot be reached: {BROKEN}", ANOTHER_INDEX),
        (
            CUDA_HOME,
            f"{NUMPY} could not be built: OSError: CUDA_HOME environment variable is not set. "
            "Did you mean: 'compiler'?",
            HINTS["CUDA_HOME environment variable is not set"],
        ),
        ("ERROR: Package 'x' requires a different Python: 3.11.2 not in '<3.9'", None, ANOTHER_VERSION),
        (
            NO_HOST,
            "Could not resolve host: git.example, for the requirement git+https://git.example/x/y.git",
            ANOTHER_SOURCE,
        ),
        (NO_SSH, f"{SSH}, for the requirement pkg", ANOTHER_SOURCE),
        (
            OLD.format("torch==1.6.0", "1.13.0, 1.13.1, 2.13.0+cpu"),
            "no torch==1.6.0 for this Python and machine: the oldest that exists is torch 1.13.0",
            ANOTHER_VERSION,
        ),
        (
            OLD.format("numpy==1.17.4 (from -r r.txt (line 2))", "2.0.0, 2.1.0"),
            "no numpy==1.17.4 for this Python and machine: the oldest that exists is numpy 2.0.0",
            ANOTHER_VERSION,
        ),
        (OLD.format("torch==9.0", "1.13.0, 2.0.0"), "No matching distribution found for torch==9.0", ANOTHER_VERSION),
        (OLD.format("torch>=9", "1.13.0, 2.0.0"), "No matching distribution found for torch>=9", ANOTHER_VERSION),
        (COPIED, f"{NUMPY} could not be built: NameError: CCompiler. {PREDATES}", ANOTHER_VERSION),
        ("one\nhint: See above for details.", "one", ""),
        ("hint: See above for details.", "hint: See above for details.", ""),
        ("[end of output]", "[end of output]", ""),
        ("", "no output", ""),
    ],
)
def test_the_line_that_says_why_is_chosen_with_a_next_step(text: str, reason: str | None, hint: str) -> None:
    found = explain_failure(text)
    assert (found.reason, found.hint) == (reason or text.removeprefix("ERROR: "), hint)
    assert hint_of_host(found.hint) == found.hint, "halfstep's own hint, not a quotation of the host"


def test_a_long_build_whose_beginning_is_lost_still_names_its_error() -> None:
    """Only the last 400 lines of the output are kept."""
    kept = METADATA.partition("lines of output]\n")[2]
    assert (
        explain_failure(kept).reason
        == f"a package could not be built: AttributeError: fcompiler. Did you mean: 'compiler'?. {PREDATES}"
    )


def test_the_lines_below_the_reason_are_those_of_the_failure_and_no_farewell() -> None:
    assert explain_failure(NOTHING_FOUND).lines == tuple(NOTHING_FOUND.splitlines()[:2])
    assert explain_failure(METADATA).lines[-1] == "AttributeError: fcompiler. Did you mean: 'compiler'?"
    assert explain_failure(CONFLICT).lines == ("The user requested torch==2.9.1", "The user requested torch==1.4.0")
    assert explain_failure("only this").lines == ()
    many = "\n".join(f"line {number}" for number in range(50))
    assert explain_failure(many).lines == tuple(f"line {number}" for number in range(42, 50))


class Connected:
    """Stands in for the connection of a laptop that stays connected and reads no events."""

    def __init__(self) -> None:
        self.connection, self.source = self, self
        self.descriptors = os.pipe()

    def fileno(self) -> int:
        return self.descriptors[0]

    def push(self, event: dict[str, Any]) -> None: ...

    def keep_alive(self, event: dict[str, Any]) -> None: ...


@pytest.mark.parametrize("text", [CONFLICT, METADATA])
def test_the_error_of_a_failed_installation_begins_with_the_reason(text: str) -> None:
    argv = [sys.executable, "-c", f"print({text!r}); raise SystemExit(1)"]
    laptop = Connected()
    with pytest.raises(Refusal) as refusal:
        run_command(
            cast(Call, laptop), argv, {**os.environ, "PYTHONIOENCODING": "utf-8"}, "torch could not be installed"
        )
    for descriptor in laptop.descriptors:
        os.close(descriptor)
    expected = explain_failure(text)
    assert refusal.value.message.splitlines()[0] == f"torch could not be installed: {expected.reason}"
    assert refusal.value.hint == expected.hint != ""
