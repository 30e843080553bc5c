"""Every verb states the same facts of a finished run: its final loss, its files, its warnings, and how it was found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipeline.records.layout import Records
from tests.e2e.plain_project import SCRIPT, write_plain_project
from tests.e2e.user import CommandResult, User
from tests.e2e.waiting_project import confirm_host_file
from tests.lab.payload import install_payload

pytestmark = [pytest.mark.train, pytest.mark.timeout(600)]
WORDS = ("--host", "one", "--config", "plain")
IDLE = (
    "spare = torch.nn.Linear(8, 8)\noptimizer = torch.optim.AdamW([*model.parameters(), *spare.parameters()], lr=1e-2)"
)
SECONDS = r"(?:\d[\d.]* (?:ms|s)|[1-9]\d* min)"


@dataclass(frozen=True)
class Finished:
    """A user whose run has ended well, and the output of the run."""

    user: User
    ran: CommandResult
    answers: dict[tuple[str, ...], dict[str, object]] = field(default_factory=dict)

    def json(self, *words: str) -> dict[str, object]:
        """Return the answer of a command, which is run once for all tests."""
        if words not in self.answers:
            self.answers[words] = self.user.run_pipeline(*words, "--json").json
        return self.answers[words]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    """One run for all tests of this module. One layer of the model is never used, which is worth a warning."""
    folder = tmp_path_factory.mktemp("finished")
    user = User(folder / "project", folder / "laptop")
    write_plain_project(user.project)
    script = re.sub(r"^optimizer = .*$", IDLE, SCRIPT, flags=re.MULTILINE)
    (user.project / "src" / "train.py").write_text(script)
    hosts = user.project / "configs" / "hosts"
    hosts.mkdir()
    (hosts / "one.yaml").write_text(f"host: local\nworkdir: {folder / 'work'}\n")
    confirm_host_file(user, "one")
    install_payload(folder / "work")
    ran = user.run_pipeline("run", *WORDS)
    assert ran.code == 0, ran.out + ran.err
    yield Finished(user, ran)


def test_run_its_curve_status_list_tail_and_report_give_one_final_loss(finished: Finished) -> None:
    user, ran = finished.user, finished.ran
    loss = f"{finished.json('status')['job']['loss']:.4g}"  # type: ignore[index]
    [row] = finished.json("list")["runs"]  # type: ignore[misc]
    reported = finished.json("report")
    page = Path(reported["artifacts"]["report"]).read_text()  # type: ignore[index]
    given = {
        "run, stage train": re.search(r"train  .* mean loss (\S+?)  ", ran.out),
        "status": re.search(r"mean loss (\S+)", user.run_pipeline("status").out),
        "tail": re.search(r"mean loss (\S+)", user.run_pipeline("tail").err),
        "page of report": re.search(r"<dd>([^<]+)<small>mean of the last 10 steps", page),
    }
    assert {name: found and found[1] for name, found in given.items()} == dict.fromkeys(given, loss)
    # A machine may train the 60 steps before the supervisor has seen two of them: then there is no curve.
    curve = re.search(r"^  loss  .* (\S+)$", ran.out, re.MULTILINE)
    assert curve is None or curve[1] == loss
    assert [f"{one['loss']:.4g}" for one in (row, reported["job"])] == [loss, loss]  # type: ignore[index]
    assert loss in user.run_pipeline("list").out.splitlines()[1].split()


def test_no_verb_names_an_adapter_that_was_never_made(finished: Finished) -> None:
    run = str(finished.json("status")["run"])
    answers = [finished.json(*words) for words in (("status",), ("report",), ("pull",), ("run", *WORDS))]
    assert [one for one in answers if "adapter" in json.dumps(one["artifacts"])] == []
    page = Path(answers[1]["artifacts"]["report"]).read_text()  # type: ignore[index]
    for text in (finished.ran.out, page):
        assert f"{run}/adapter" not in text
    assert "it saved no adapter" in finished.ran.out
    assert not (Records(finished.user.project).folder_named(run) / "adapter").exists()


def test_no_time_of_a_short_run_is_0_min(finished: Finished) -> None:
    assert re.search(rf"fp32 works: {SECONDS} per step", finished.ran.out), finished.ran.out
    shown = [finished.ran.out, *(finished.user.run_pipeline(verb).out for verb in ("status", "list"))]
    assert [text for text in shown if re.search(r"\b0 min", text)] == []


def test_a_tensor_without_a_gradient_is_reported_once_by_run_and_in_its_report(finished: Finished) -> None:
    text = finished.ran.out + finished.ran.err
    assert text.count("[adapter-gradient]") == 1, text
    assert "2 of 6 trained tensors got no gradient in 2 steps" in text
    assert (
        "warning 2 optimized tensors are in modules that are not called and get no gradient  [optimizer-parameters]"
        in text
    )
    page = Path(finished.json("report")["artifacts"]["report"]).read_text()  # type: ignore[index]
    assert page.count("trained tensors got no gradient") == page.count("2 of 6 trained tensors got no gradient") > 0
    assert [one["check"] for one in finished.json("status")["findings"]] == ["adapter-gradient"]  # type: ignore[attr-defined,index]


def test_plan_says_found_on_the_host_as_run_does(finished: Finished) -> None:
    run = finished.json("status")["run"]
    Records(finished.user.project).checkpoints("one", "plain").unlink()
    finished.answers.clear()
    planned, plan = finished.json("plan", *WORDS), finished.user.run_pipeline("plan", *WORDS).out
    again = finished.json("run", *WORDS)
    for answer in (planned, again):
        [train] = [stage for stage in answer["stages"] if stage["name"] == "train"]  # type: ignore[attr-defined]
        assert train["reason"] == f"found on the host: {run} succeeded, 60 steps"
    assert f"found on the host: {run} succeeded" in plan
    assert again["run"] == planned["run"] == run
