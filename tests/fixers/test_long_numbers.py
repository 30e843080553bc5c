"""Numbers of any length in versions and launch commands: `int` rejects more than 4,300 digits and a superscript two."""

from __future__ import annotations

import pytest

from fixers.frame.pins import INSTALLED
from fixers.frame.target import Target
from fixers.settings.port_forms import judge_script
from fixers.setup.torch_builds import ARCHITECTURE
from fixers.setup.torch_requirement import BadTorch, parse_torch_requirement
from fixers.sources.shell_words import scan_shell
from remote.protocol.text import version_numbers
from remote.protocol.tokenizer_files import version_of

LONG = "9" * 5000


@pytest.mark.parametrize("text", [f"^{LONG}.1", f"torch ^{LONG}", "^\u0663.1", "\u0663.1"])
def test_SE_a_torch_setting_with_an_absurd_number_is_refused_without_a_suggestion(text: str) -> None:
    with pytest.raises(BadTorch) as caught:
        parse_torch_requirement(text)
    assert caught.value.nearest == ""


def test_a_caret_is_still_corrected() -> None:
    with pytest.raises(BadTorch) as caught:
        parse_torch_requirement("^2.4")
    assert caught.value.nearest == ">=2.4,<3"


@pytest.mark.parametrize(("text", "allowed"), [(f"=={LONG}", False), (f"<{LONG}.1", True), (f">=2.{LONG}", False)])
def test_SE_a_torch_version_with_a_long_number_is_compared(text: str, allowed: bool) -> None:
    assert parse_torch_requirement(text).allows(2, 6) is allowed


@pytest.mark.parametrize(
    ("number", "inserts"), [(b"2", True), (b"1", False), (b"09", True), (b"\xb2", False), (LONG.encode(), False)]
)
def test_SE_a_launch_with_any_number_of_processes_is_read(number: bytes, inserts: bool) -> None:
    data = b"accelerate launch --num_processes %s train.py\n" % number
    assert bool(judge_script(data, scan_shell(data)).edits) is inserts


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("2.10.0", (2, 10, 0)), ("0.19.1rc2", (0, 19, 1, 2)), ("00000000001", (1,)), (f"1.{LONG}", (1, 10**9)), ("", ())],
)
def test_SE_the_numbers_of_a_version_have_a_limit(version: str, numbers: tuple[int, ...]) -> None:
    assert version_numbers(version) == numbers
    assert Target(packages={"torch": version}).at_least("torch", numbers[:3])


def test_SE_versions_of_a_host_and_of_a_tokenizer_may_have_long_numbers() -> None:
    assert version_of(f"0.{LONG}rc1") == (0, 10**9)
    assert ARCHITECTURE.fullmatch("sm_90a") and not ARCHITECTURE.fullmatch(f"sm_{LONG}")
    assert INSTALLED.search(f"torch==2.{LONG}".encode())
