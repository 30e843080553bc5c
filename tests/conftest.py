"""Fixtures of the lab. Each reason to skip one must be listed in allowed_skips.txt."""

from __future__ import annotations

import configparser
import contextlib
import fcntl
import gc
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from remote.protocol import hidden
from tests.exhaustive import mark_listed
from tests.lab.accounts import Accounts, why_no_accounts
from tests.lab.chaos import ChaosProxy
from tests.lab.delayed_link import DelayedLink, why_no_delayed_link
from tests.lab.sshd import Sshd, have_sshd

# Hypothesis uses the same examples every time, so that tests are reproducible; `HALFSTEP_RANDOM=1` tries new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("HALFSTEP_RANDOM") else "same")
# SIGINT is ignored in background jobs of a script, and child processes of the tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
ALLOWED_SKIPS = Path(__file__).parent / "allowed_skips.txt"
HAS_PASSED = pytest.StashKey[bool]()


def add_real_python(path: str) -> str:
    """Return a PATH whose python3 is a program. The script of a version manager costs 0.1 s of CPU time per start."""
    found = shutil.which("python3", path=path)
    is_script = found is not None and Path(found).read_bytes()[:2] == b"#!"
    return f"{sys.base_prefix}/bin{os.pathsep}{path}" if is_script else path


os.environ["PATH"] = add_real_python(os.environ.get("PATH", os.defpath))
# No test compiles a model. Otherwise bitsandbytes, which peft imports, loads torch's compiler in 1 s of CPU time.
os.environ["TORCHDYNAMO_DISABLE"] = "1"


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for all tests of this process. No test examines its content."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Create numbered folders. pytest lists all earlier folders for each new one, in 5 ms of CPU time after 6,000."""
    base, numbers = tmp_path_factory.getbasetemp(), count()

    def create(name: str) -> Path:
        folder = base / f"{name}_{next(numbers)}"
        folder.mkdir(mode=0o700)
        return folder

    return create


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, new_folder: Callable[[str], Path]) -> Iterator[Path]:
    """A new folder for this test, named after it."""
    folder = new_folder(re.sub(r"\W", "_", request.node.name)[:30])
    yield folder
    remove_if_passed(request, folder)


def remove_if_passed(request: pytest.FixtureRequest, folder: Path) -> None:
    """Remove the folder of a test that has passed, before the disk has to write it: all tests create 7 GB.

    A folder in which something is still mounted is kept, with what is mounted there.
    """
    with contextlib.suppress(OSError):
        folder.rmdir()
        return
    mounts = Path("/proc/mounts")
    is_mounted = mounts.exists() and f" {folder}" in mounts.read_text("utf-8", "surrogateescape")
    if request.node.stash.get(HAS_PASSED, False) and not is_mounted:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _own_home(
    request: pytest.FixtureRequest,
    shared_cache: Path,
    new_folder: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """Keep tests away from the real home folder and the real ssh agent."""
    home = new_folder("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    for name in ("SSH_AUTH_SOCK", "HALFSTEP_SSH_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    yield
    remove_if_passed(request, home)


@pytest.fixture(autouse=True)
def _no_hidden_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test mask the secrets of another one: they are hidden for the rest of a process."""
    monkeypatch.setattr(hidden, "_values", set())


@pytest.fixture(scope="session", autouse=True)
def _another_user() -> Iterator[None]:
    """Run a process of another user, as on a shared host: root alone in a container may use what others can write."""
    if os.geteuid() != 0:
        yield
        return
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=4243, group=4243, extra_groups=[], cwd="/"):
        yield  # `cat` ends with the end of its input, also if this process is killed


@pytest.fixture
def start_sshd(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """Start servers with keyword arguments (see Sshd). `name`, by default `titan`, is the folder under tmp_path."""
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
    """A running server that accepts one user key."""
    return start_sshd()


@pytest.fixture
def start_link(tmp_path: Path) -> Iterator[Callable[..., DelayedLink]]:
    """Start links with keyword arguments (see DelayedLink).

    A server at the far end is started with the link's `far` and `prefix`.
    """
    if reason := why_no_delayed_link():
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> DelayedLink:
            line = DelayedLink(tmp_path / "link", **options)
            stack.callback(line.close)
            return line.start()

        yield start


@pytest.fixture
def chaos() -> Iterator[Callable[..., ChaosProxy]]:
    """Start a proxy for bad connections to (host, port); see ChaosProxy. Fails if a planned fault never happened."""
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
    """Create accounts on this machine with keyword arguments (see Accounts.make)."""
    if reason := why_no_accounts():
        pytest.skip(reason)
    accounts = Accounts()
    yield accounts.make
    accounts.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that tests/exhaustive.txt and tests/sweeps.txt list."""
    missing = mark_listed(items)
    # If one row of a test was selected, or the failed ones of the last run, the other rows are not collected.
    is_part = any("::" in argument for argument in config.args) or config.getoption("lf", False)
    if missing and not is_part:
        raise pytest.UsageError(f"tests/exhaustive.txt, tests/sweeps.txt: {'; '.join(missing)}")


def skip_reasons(section: str) -> tuple[str, ...]:
    """Return the lines of a section of allowed_skips.txt."""
    lists = configparser.ConfigParser(allow_no_value=True, delimiters=("=",))
    lists.optionxform = str  # type: ignore[assignment]
    lists.read_string(ALLOWED_SKIPS.read_text())
    return tuple(lists[section])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true, fail a test that is skipped for a reason that is not permitted. Note whether the test passed."""
    report = yield
    if report.when == "call":
        item.stash[HAS_PASSED] = report.passed
    return report if hasattr(report, "wasxfail") else refuse_skip(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """With CI=true, fail a whole file that is skipped for a reason that is not permitted."""
    with compiled_once(collector):
        return refuse_skip((yield))


@contextlib.contextmanager
def compiled_once(collector: pytest.Collector) -> Iterator[None]:
    """Let one worker compile the file, and what it imports, while the others wait to load the byte code.

    In a new clone, all workers would otherwise compile all files at the same time.
    """
    if isinstance(collector, pytest.Module):
        stem = glob.escape(collector.path.stem)
        if not any(collector.path.parent.glob(f"__pycache__/{stem}.*-pytest-*.pyc")):
            with collector.path.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
            return
    yield


def refuse_skip(report: Report) -> Report:
    """Turn a skip into a failure if CI=true and its reason is not permitted."""
    if os.environ.get("CI") != "true" or not report.skipped:
        return report
    reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    if not reason.removeprefix("Skipped: ").startswith(skip_reasons("permitted")):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: with CI=true, a test must not be skipped for this reason: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what exists before the first test out of garbage collections, which otherwise examine it each time.

    A collection at this point would take 0.9 s of CPU time in each worker and find little. Later ones are made less
    often than by default, which saves a twentieth of the CPU time.
    """
    gc.disable()
    result = yield
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()
    return result
