"""Every command in the documentation works as its page shows: the tests read the pages and type the commands.

The hosts of a page are OpenSSH servers on this machine. The home folders of the reader and of the hosts are empty.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.docs.page import ROOT, Command, File, all_pages, commands_outside_console, read_page, steps
from tests.docs.reader import INTERRUPT, Reader, difference, pattern, same
from tests.docs.reader_environment import OWN_SCRIPT, SCRIPT, WITH_SLURM, environment_of, own_script
from tests.lab.slurm import slurm_cluster
from tests.lab.sshd import Sshd

ELSEWHERE = {
    "uv tool install .": "needs a package index; `make demo` in .ci/run installs the package",
    "docs/machines.md": "machines of providers; tests/e2e/test_rented_box.py types the same at stand-ins",
    "docs/containers.md": "needs a Docker engine; tests/image/try-image, which `make test-image` runs, types them",
}
"""Commands and pages that another test covers, with that test; all others are typed here."""


def with_commands() -> list[str]:
    # To parse every page takes half a second in each worker of the tests.
    likely = [name for name in all_pages() if "console" in (ROOT / name).read_text("utf-8")]
    return [name for name in likely if any(isinstance(step, Command) for step in steps(read_page(name)))]


def typed_here() -> list[str]:
    return [name for name in with_commands() if name not in ELSEWHERE]


@pytest.mark.ssh
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", typed_here())
def test_the_commands_of_a_page_print_what_it_shows(
    name: str, start_sshd: Callable[..., Sshd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slurm_cluster(tmp_path / "slurm", monkeypatch) if name in WITH_SLURM else nullcontext() as cluster:
        read_and_type(name, Reader(tmp_path / "here", environment_of(name, tmp_path, start_sshd, cluster)))


def read_and_type(name: str, reader: Reader) -> None:
    """Do what the page says; fail where the result differs from it."""
    todo = steps(read_page(name))
    for step, after in zip(todo, (*todo[1:], None), strict=True):
        if not isinstance(step, Command):
            reader.write_file(step)
        elif step.text not in ELSEWHERE:
            if name in OWN_SCRIPT and SCRIPT in step.text and not (reader.folder / SCRIPT).exists():
                reader.write_file(File(step.line, SCRIPT, own_script()))
            printed = reader.type_command(step)
            may_fail = INTERRUPT in step.output or (isinstance(after, Command) and after.text == "echo $?")
            assert reader.status == 0 or may_fail, f"$ {step.text}\nexit {reader.status}\n{printed}"
            assert not difference(step, printed), difference(step, printed)


def test_the_step_in_a_live_view_stands_for_any_step() -> None:
    assert pattern(["... step 8 of 36 ..."]).fullmatch(same("train  step 11 of 36, mean loss 1.2"))
    assert not pattern(["... step 8 of 36 ..."]).fullmatch(same("train  step 11 of 40, mean loss 1.2"))


@pytest.mark.parametrize(
    "name", [name for name in all_pages() if not name.startswith(("docs/checks/", "docs/fixers/"))]
)
def test_every_block_with_commands_is_marked_as_such(name: str) -> None:
    assert commands_outside_console(read_page(name)) == []


def test_the_list_of_commands_that_other_tests_type_is_short_and_current() -> None:
    on_pages = {step.text for name in with_commands() for step in steps(read_page(name)) if isinstance(step, Command)}
    assert set(ELSEWHERE) <= on_pages | set(with_commands())
    assert len(ELSEWHERE) == 3
