"""Fixtures of the lab; where a machine cannot carry one, the skip must be on the list in allowed_skips.txt."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.lab.accounts import Accounts, why_no_accounts
from tests.lab.chaos import ChaosProxy
from tests.lab.distance import Distance, why_no_distance
from tests.lab.sshd import Sshd, have_sshd

# The same examples every time: a test must not need luck, and `HALFSTEP_RANDOM=1` looks for new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("HALFSTEP_RANDOM") else "same")
# In the background of a script SIGINT is ignored, and whatever a test starts would ignore Ctrl-C too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
ALLOWED_SKIPS = Path(__file__).parent / "allowed_skips.txt"


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for all tests of this process: what is kept there is never looked at by a test."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_home(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the home of whoever runs it, or speaks to their ssh agent."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    for name in ("SSH_AUTH_SOCK", "HALFSTEP_SSH_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def start_sshd(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """Starts servers by keyword (see Sshd); the name, default `titan`, is the folder under tmp_path."""
    if not have_sshd():
        pytest.skip("no OpenSSH server on this machine")
    with contextlib.ExitStack() as stack:

        def start(name: str = "titan", **options: Any) -> Sshd:
            server = Sshd(tmp_path / name, **options)
            stack.callback(server.close)
            return server.start()

        yield start


@pytest.fixture
def sshd(start_sshd: Callable[..., Sshd]) -> Sshd:
    """One running server that knows one user key."""
    return start_sshd()


@pytest.fixture
def go_far(tmp_path: Path) -> Iterator[Callable[..., Distance]]:
    """Starts lines by keyword (see Distance); a server at the far end takes its `far` and `prefix`."""
    if reason := why_no_distance():
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> Distance:
            line = Distance(tmp_path / "distance", **options)
            stack.callback(line.close)
            return line.start()

        yield start


@pytest.fixture
def chaos() -> Iterator[Callable[..., ChaosProxy]]:
    """Starts a bad line to a (host, port); see ChaosProxy. The test fails where a planned fault never fired."""
    proxies: list[ChaosProxy] = []

    def start(target: tuple[str, int], **options: Any) -> ChaosProxy:
        proxies.append(ChaosProxy(target, **options).start())
        return proxies[-1]

    yield start
    for proxy in proxies:
        proxy.close()
    for proxy in proxies:
        proxy.injector.check()


@pytest.fixture
def account() -> Iterator[Callable[..., str]]:
    """Makes accounts of this machine by keyword (see Accounts.make)."""
    if reason := why_no_accounts():
        pytest.skip(reason)
    accounts = Accounts()
    yield accounts.make
    accounts.close()


def allowed_skips() -> tuple[str, ...]:
    """Reasons that may be given for a skip; a line of the file is one, `#` begins a comment."""
    lines = ALLOWED_SKIPS.read_text().splitlines()
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """With CI=true a skip whose reason is not on the list is a failure: nothing goes unchecked in silence."""
    outcome: Any = yield
    report = outcome.get_result()
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(allowed in reason for allowed in allowed_skips()):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: this skip is not in tests/allowed_skips.txt: {reason}"
