"""Output on small terminals and on terminals without Unicode."""

from __future__ import annotations

import io
import json
import shlex
import sys
import tempfile
from pathlib import Path

import pytest

from pipeline.messages.outcome import Outcome, StageOutcome, StageState
from pipeline.show.failure import keep_traceback
from pipeline.show.screen import Screen
from pipeline.show.wrapping import wrap_hint, wrap_text
from remote.protocol.findings import Finding


@pytest.mark.parametrize(("encoding", "drawn"), [("ascii", "loss        3 -> 1"), ("utf-8", "loss        3 █▁▁ 1")])
def test_a_curve_is_drawn_only_if_the_encoding_has_bar_characters(
    encoding: str, drawn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, write_through=True))
    Screen().curve("loss", [3.0, 1.0, 1.0])
    assert drawn in raw.getvalue().decode(encoding)


def test_without_a_terminal_few_details_are_printed_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    err, now = io.StringIO(), [100.0]
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr("pipeline.show.screen.time.monotonic", lambda: now[0])
    screen = Screen()
    screen.progress("make venv")
    for second in range(12):
        now[0] = 100.0 + second
        screen.detail(f"collecting package {second}")
    assert err.getvalue().splitlines() == ["  make venv", "  collecting package 5", "  collecting package 10"]


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("name", "plain"), [("NO_COLOR", True), ("UNHEARD_OF", False)])
def test_NO_COLOR_leaves_text_as_it_is(name: str, plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(name, "1")
    screen = Screen()
    screen.heading("bold")
    screen.diff("+green\n")
    assert (terminal.getvalue() == "bold\n+green\n") is plain


def test_on_a_narrow_terminal_the_last_column_is_folded_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("LINES", "24")  # rich believes COLUMNS of a dumb terminal only beside LINES
    monkeypatch.setenv("TERM", "dumb")
    Screen().table(("check", "found"), [("login", "/home/me/.ssh/id_ed25519; " + "strict " * 9)])
    lines = terminal.getvalue().splitlines()
    assert max(len(line) for line in lines) <= 50
    assert " ".join(line.strip() for line in lines[1:]).split().count("strict") == 9


def test_comments_of_a_diff_are_wrapped_and_its_lines_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in (("COLUMNS", "50"), ("LINES", "24"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    code = "-" + "x = 1; " * 12
    Screen().diff(f"# on the host: create venv with torch, {'requirements.txt ' * 5}(environment)\n{code}\n")
    *comments, line = terminal.getvalue().splitlines()
    assert line == code and len(comments) > 1
    assert all(part.startswith("#") and len(part) <= 50 for part in comments)
    assert " ".join(comments).split().count("requirements.txt") == 5


@pytest.mark.parametrize("columns", ["40", "60"])
def test_the_next_command_is_folded_between_words_and_can_be_copied(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in (("COLUMNS", columns), ("LINES", "24"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    command = "pipeline run --host titan --config captions --set fixers.environment=create"
    Screen().next_step(command)
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert shlex.split("\n".join(lines).replace("\\\n", "").removeprefix("  next: ")) == command.split()


def test_a_cell_that_does_not_fit_beside_the_others_is_below_them(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in {"COLUMNS": "50", "LINES": "24", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    path, use = "/home/me/speech/configs/paper_r64.yaml", "pipeline run --host HOST --config paper_r64"
    Screen().table(("config", "use", "file"), [("tiny", "short", "shipped"), ("paper_r64", use, path)])
    tiny, paper = ["tiny", "    short", "    shipped"], ["paper_r64", f"    {use}", f"    {path}"]
    assert terminal.getvalue().splitlines()[3:] == [*tiny, *paper], "every row has the same layout"
    terminal.truncate(0)
    Screen().table(("config", "file"), [("tiny", "shipped"), ("paper_r64", f"/mnt{path}")])
    assert terminal.getvalue().lstrip("\0").splitlines()[1:] == ["tiny       shipped", "paper_r64", f"    /mnt{path}"]


def test_a_command_in_a_note_is_on_one_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in {"COLUMNS": "40", "LINES": "24", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    command = "scp -r titan:/home/me/halfstep/projects/speech-0123/runs/speech-4567/code/out ."
    Screen().note("to download the weights that the script saved:", command)
    assert terminal.getvalue().splitlines()[-1] == f"  {command}"


def test_a_table_without_rows_is_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().table(("run", "host"), [])
    assert capsys.readouterr().out == "run  host\n"


@pytest.mark.parametrize(
    "word", ["\x7f", "\x9b2J", "\u202egpj", "\u2066", "\u200b\U000e0041", "\ud800", "\udcff", "\x1b]52;c;x\x07"]
)
def test_SE_16_the_json_object_has_no_control_characters_and_the_same_content(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Screen(as_json=True).closing(Outcome("status", host=f"a {word}"))
    out = capsys.readouterr().out
    assert out.rstrip("\n").isprintable() and json.loads(out)["host"] == f"a {word}"


def test_SE_05_the_traceback_of_a_defect_is_kept_for_any_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = Path(keep_traceback(["Traceback:\n", "KeyError: \ud800\x1b]52;c;x\x07\x9b\n"]))
    assert kept.read_text() == "Traceback:\nKeyError: \\ud800\\x1b]52;c;x\\x07\\x9b\n"


def test_the_line_of_a_stage_breaks_between_words_and_never_in_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in {"COLUMNS": "60", "LINES": "24", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    path = ".halfstep/runs/plain-b9243429-2/with-a-long-name"
    Screen().stage_ended(StageOutcome("logs", StageState.DONE, 2.0, f"4.0 kB downloaded to {path}; saved no adapter"))
    Screen().stage_ended(StageOutcome("sync", StageState.DONE, 2.0, "1 file sent"))
    first, second, third, last = terminal.getvalue().splitlines()
    assert first == "  logs        done    4.0 kB downloaded to"
    assert (second.strip(), third.strip()) == (f"{path};", "saved no adapter  2.0 s")
    assert last == "  sync        done    1 file sent  2.0 s"


def test_a_finding_breaks_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for name, value in {"COLUMNS": "60", "LINES": "24", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    words = "autocast is off: the command trains in float32, slower and in twice the memory"
    for stream in (terminal, pipe):
        monkeypatch.setattr(sys, "stdout", stream)
        Screen().findings([Finding.warning("autocast", f"{words}\nand more", hint="pipeline run")])
    assert max(map(len, terminal.getvalue().splitlines())) <= 60
    assert " ".join(terminal.getvalue().split()) == " ".join(pipe.getvalue().split())
    assert f"warning {words}  [autocast]" in pipe.getvalue()


def test_a_path_in_the_current_folder_is_short_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = Outcome("run", artifacts={"report": str(tmp_path / "r" / "report.html"), "adapter": "/elsewhere"})
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setenv("TERM", "dumb")
        Screen().closing(outcome)
    assert terminal.getvalue().splitlines() == ["  report      r/report.html", "  adapter     /elsewhere"]
    assert str(tmp_path) in pipe.getvalue()


@pytest.mark.parametrize("length", [9, 10, 40])
def test_a_label_that_does_not_fit_has_a_line_of_its_own(length: int, capsys: pytest.CaptureFixture[str]) -> None:
    with Screen() as screen:
        screen.labelled([("x" * length, "words"), ("short", "other")], 10)
    beside = [f"    {'x' * 9} words"] if length < 10 else [f"    {'x' * length}", f"    {'':<10}words"]
    assert capsys.readouterr().out.splitlines() == [*beside, f"    {'short':<10}other"]


class Keyboard(Terminal):
    """Standard input that is a terminal at which only Enter is typed."""

    def readline(self) -> str:
        return "\n"


@pytest.mark.parametrize(
    ("hint", "ends"),
    [
        ("pipeline run --host titan --config speech --set train.epochs=3", " \\"),
        ("pipeline run --host titan --config speech --set 'data.split=a,  b'", " \\"),
        ("scp -r me@titan:/home/me/halfstep/projects/speech-0123/runs/speech-4567/merged .", " \\"),
        ("(cd / && python3 -m pip install torch transformers datasets librosa)", " \\"),
        ("check how audio is loaded, and how its features are computed", ""),
    ],
)
def test_only_the_lines_of_a_command_end_with_a_backslash(hint: str, ends: str) -> None:
    *lines, last = wrap_hint(hint, 44)
    assert lines and all(line.endswith(ends) for line in lines) and not last.endswith("\\")
    assert " ".join((*(line.removesuffix(ends) for line in lines), last)) == hint


@pytest.mark.parametrize(
    "hint",
    [
        "rm -r /home/me/project/.halfstep/runs/speech-4567/LLLLLLLLLLLLLLLLLLLLLLLLLLLLL/plugins/evil",
        "rm -r '/home/me/project/.halfstep/runs/speech 4567 LLLLLLLLLLL LLLLLLLLLLLLLLLL/plugins/evil'",
        "chmod 600 '/home/me/project/a b c d e f g h i j k l m n o p'",
        "if you trust this user: git config --global --add safe.directory /home/me/a/b/c/d",
        "pipeline evaluate --adapter PATH --host HOST --config NAME, with `model:` and `data:` in the config",
        "pipeline run --force train   (starts again at step 0 as a new run)",
        "set the host's clock, or pipeline hosts check /a/b/c/d/e/f/g/h",
    ],
)
def test_SE_no_line_of_a_wrapped_hint_is_another_command(hint: str) -> None:
    *lines, last = wrap_hint(hint, 30)
    assert all(line.endswith(" \\") and line.count("'") % 2 == 0 for line in lines)
    assert "".join((*(line.removesuffix("\\") for line in lines), last)) == hint


def test_SE_a_command_in_a_message_is_on_one_line() -> None:
    command = "`chmod 644 /home/me/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p`"
    assert f"{command}," in wrap_text(f"the file is writable by every user: {command}, or not", 30, 40)


@pytest.mark.parametrize(
    ("typed", "default", "answer"),
    [
        (["maybe\n", "\n"], True, True),
        (["maybe\n", "n\n"], True, False),
        (["2\n", "sure\n", "Yes\n"], False, True),
        (["maybe\n", ""], True, False),
    ],
)
def test_an_answer_other_than_yes_or_no_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: list[str], default: bool, answer: bool
) -> None:
    keyboard, lines = Keyboard(), iter(typed)
    monkeypatch.setattr(keyboard, "readline", lambda: next(lines))
    monkeypatch.setattr(sys, "stdin", keyboard)
    assert Screen().confirm("Really?", default=default) is answer
    assert capsys.readouterr().err.count("please type y or n") == sum(one not in ("\n", "") for one in typed[:-1])


LONG = "Packages to install on the host, besides those from requirements.txt (empty: none)"


@pytest.mark.parametrize("text", [LONG, "Which card does the host have, if it has no driver yet? Names: titan-rtx, t4"])
def test_questions_and_progress_break_between_words(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    out, err = Terminal(), Terminal()
    for name, stream in {"stdin": Keyboard(), "stdout": out, "stderr": err}.items():
        monkeypatch.setattr(sys, name, stream)
    for name, value in {"COLUMNS": "60", "LINES": "24", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    screen = Screen()
    answers = (lambda: screen.ask(text, default="none"), lambda: screen.confirm(text, default=True))
    for call in (*answers, lambda: screen.progress(text)):
        assert call() in ("none", True, None)
        err.write("\n")
    lines = err.getvalue().splitlines()
    assert max(len(line) for line in lines) <= 60 and len(lines) >= 6
    assert " ".join(err.getvalue().split()) == f"{text} [none] {text} [Y/n] {text}"


def test_each_line_of_a_question_is_wrapped_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    err = Terminal()
    for name, stream in {"stdin": Keyboard(), "stdout": Terminal(), "stderr": err}.items():
        monkeypatch.setattr(sys, name, stream)
    for name, value in {"COLUMNS": "60", "LINES": "24", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    Screen().confirm(f"The key is unknown:\n  SHA256:abc\n{LONG}", default=True)
    first, second, third, *_ = (line.strip() for line in err.getvalue().splitlines())
    assert (first, second, third[:8]) == ("The key is unknown:", "SHA256:abc", "Packages")


def test_a_duration_stays_on_one_line_with_its_unit() -> None:
    text = f"{'word ' * 8}end"
    assert wrap_text(f"{text}  4.7 s", 44, 44, "4.7 s")[-1].endswith("4.7 s")
    for room in range(20, 60):
        assert any("4.7 s" in line for line in wrap_text(f"{text}  4.7 s", room, room, "4.7 s"))
