"""A command that halfstep prints does not run code of the folder in which it is typed."""

from __future__ import annotations

import ast
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from pipeline.messages.hints import complete_hint, install_command
from pipeline.show.plain import headed
from pipeline.show.wrapping import wrap_hint
from remote.protocol.shell import command_line, install_on_host, on_host, outside_project, shell_command
from remote.protocol.text import one_line
from tests.contracts.project_modules import ROOT, modules

BLOCK_BYTES = 4_096
INSTALLS = re.compile(r"""["']-m["'], ["']pip["']""")
ALLOWED = {
    "remote/payload": "runs pip itself, in a folder of its own",
    "pipeline/messages/hints.py": "outside_project",
    "remote/protocol/shell.py": "outside_project",
}


def test_SE_12_pip_is_started_outside_of_the_project() -> None:
    found = [each.where for each in modules() if INSTALLS.search(each.source)]
    assert [where for where in found if not where.startswith(tuple(ALLOWED))] == []


def test_SE_12_no_hint_is_a_git_command() -> None:
    """git would run the hooks and read the settings of a repository that came with the project."""
    hints = re.compile(r"""(?:hint=|shell_command\()[\s(]*f?["']git """)
    assert [each.where for each in modules() if hints.search(each.source)] == []


@pytest.mark.parametrize(
    "command",
    [
        install_on_host(sys.executable, ["--help"]),
        install_command("--help", "/home/me/venv", sys.executable, None),
        outside_project(sys.executable, "-m", "pip", "--version"),
    ],
)
def test_SE_12_a_folder_pip_of_the_project_is_not_imported(tmp_path: Path, command: str) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text("print('of the project')\n")
    words = command.removesuffix("   (on the host)")
    done = subprocess.run(["sh", "-c", words], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "of the project" not in done.stdout
    assert done.stdout


def test_no_page_of_the_docs_installs_into_an_environment_from_the_project() -> None:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "-m pip install" in path.read_text("utf-8")]
    assert all("(cd / &&" in path.read_text("utf-8") or path.name in ("testing.md",) for path in pages), pages


SHELLS = {
    "bash": ("bash", "--norc"),
    "dash": ("dash",),
    "zsh": ("zsh", "-f"),
    "fish": ("fish", "--no-config"),
    "tcsh": ("tcsh", "-f"),
}
INSTALLED = [name for name in SHELLS if shutil.which(name)]
TRAP = "echo > PWNED"
HOSTILE = [
    *(f"a{mark}{TRAP}{mark}b" for mark in (chr(code) for code in range(1, 128)) if not mark.isalnum()),
    f"$({TRAP})",
    f"({TRAP})",
    f"\\'\"; {TRAP}; #",
    f"'; {TRAP}; '",
    f"a   (on titan), or b; {TRAP}",
    f"v pipeline run; $({TRAP}) #",
    f"v --host HOST --config NAME; $({TRAP}) #",
    f"v pipeline hosts check; $({TRAP}) #",
    f"v   (on the host); {TRAP}",
    f"L/L/L/L;\u2028{TRAP}",
    f"\ue000{TRAP}\ue000",
    f"\udcff;{TRAP}",
    f"=(echo);{TRAP}",
    "L" * 3000 + f";{TRAP}",
]


@pytest.fixture
def without_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)


KEYS = "\u00c8" * 40 + " touch PWNED \u00f2"
"""Its bytes are keys of tcsh without a UTF-8 locale: M-H deletes a word, and M-2 repeats the next letter, a quote."""


BUILD = {"shell_command": shell_command, "on_host": on_host}


@cache
def templates() -> list[tuple[str, str]]:
    """Return the function that builds each hint with a name, and the hint's template."""
    calls = (node for one in modules() for node in ast.walk(one.tree) if isinstance(node, ast.Call) and node.args)
    named = [each for each in calls if isinstance(each.func, ast.Name) and each.func.id in BUILD]
    return sorted(
        {(ast.unparse(each.func), each.args[0].value) for each in named if isinstance(each.args[0], ast.Constant)}
    )


def pasted(name: str) -> list[str]:
    """Return what a user copies from a screen: every hint with the hostile name in each of its places."""
    built = [BUILD[function](each, *[name] * each.count("{}")) for function, each in templates()]
    hints = [complete_hint(hint, "titan", "base") for hint in built]
    hints += [install_on_host(name, [name]), install_command(name, "", name, None), command_line(["pipeline", name])]
    whole = (
        "pipeline run",
        "pipeline hosts check",
        "pipeline fix --host HOST --config NAME",
        "nvidia-smi   (on the host)",
    )
    given = (("titan", "q's", ()), (name, name, ()), ("titan", "base", ("--set", f"a={name}")))
    hints += [complete_hint(hint, *names) for hint, names in product(whole, given)]
    return sorted({"\n".join(wrap_hint(headed(one_line(hint))[1], 30)) for hint in hints})


def inputs(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines in texts that a shell reads at once.

    tcsh reads 4,096 bytes at a time, and ends a quoted word in the wrong place where a block of its input ends.
    """
    text = ""
    for line in lines:
        if len(f"{text}{line}\n".encode("utf-8", "surrogateescape")) > BLOCK_BYTES:
            yield text
            text = ""
        text += f"{line}\n"
    yield text


def run_in(shell: str, text: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    program, *options = SHELLS[shell]
    words = [str(shutil.which(program)), *options]
    environment = {"HOME": str(folder), "PATH": str(folder / "none"), "LC_ALL": "C.UTF-8"}
    typed = text.encode("utf-8", "surrogateescape")
    return subprocess.run(words, input=typed, capture_output=True, cwd=folder, env=environment, check=False)


@pytest.mark.parametrize("shell", INSTALLED)
def test_SE_a_pasted_hint_runs_nothing_that_a_name_contains(shell: str, tmp_path: Path) -> None:
    assert len(templates()) > 40
    for name in HOSTILE:
        for text in inputs(pasted(name)):
            run_in(shell, text, tmp_path)
        assert not (tmp_path / "PWNED").exists(), name
    assert run_in(shell, f"{TRAP}\n", tmp_path) and (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("shell", INSTALLED)
def test_SE_every_shell_reads_the_printed_words(shell: str, tmp_path: Path) -> None:
    words = [word for word in (*HOSTILE, "a b", "", "-n") if command_line([word])]
    assert len(words) > 20
    lines = (shell_command("/usr/bin/printf '%s.' {}", word) for word in words)
    done = run_in(shell, "\n".join(lines) + "\n", tmp_path)
    assert done.stdout.decode() == "".join(f"{word}." for word in words)
    assert not (tmp_path / "PWNED").exists()


def type_into_tcsh(line: str, folder: Path) -> None:
    """Type a line and Enter at the prompt of an interactive tcsh without a UTF-8 locale."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execve("/usr/bin/tcsh", ["tcsh", "-f"], {"HOME": str(folder), "PATH": "/usr/bin:/bin", "TERM": "xterm"})
    try:
        read_prompt(terminal)
        os.write(terminal, f"{line}\r".encode())
        read_prompt(terminal)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def read_prompt(terminal: int) -> None:
    text = b""
    while not text.endswith((b"# ", b"> ")):
        text += os.read(terminal, 1)


@pytest.mark.skipif(not Path("/usr/bin/tcsh").exists(), reason="no login shell tcsh")
def test_SE_a_hint_typed_into_tcsh_without_a_locale_runs_nothing_that_a_name_contains(
    tmp_path: Path, without_locale: None
) -> None:
    type_into_tcsh(shell_command("chmod 600 {}", tmp_path / KEYS), tmp_path)
    assert not (tmp_path / "PWNED").exists()
    type_into_tcsh("touch PWNED", tmp_path)
    assert (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("locale", ["LANG=C", "LANG=en_US.UTF-8", "LC_ALL=C", "LC_CTYPE=UTF-8"])
def test_SE_a_command_contains_only_ascii_whatever_locale_python_chooses(locale: str) -> None:
    """Python replaces the locale C of its shell by C.UTF-8 before the first line of a program."""
    name, _, value = locale.partition("=")
    code = "from remote.protocol.shell import command_line\n"
    code += f"print([command_line(['cat', each]) for each in ('a b', {KEYS!a})])"
    environment = {"PYTHONPATH": str(ROOT), name: value}
    shown = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout == "[\"cat 'a b'\", '']\n"


@pytest.mark.parametrize("name", [KEYS, "f\u00fcr", "\u540d", "\ue000", "\x7f"])
def test_SE_a_name_outside_of_ascii_is_not_repeated_in_a_command(name: str) -> None:
    assert command_line(["cat", name]) == ""
    assert shell_command("cat {}", name) == "quote the name above for your shell, and type it for NAME: cat NAME"
    assert on_host("df {}", name, host="titan").startswith("quote the name above for your shell")
    assert all(hint.isascii() for hint in pasted(name))
