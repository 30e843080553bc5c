"""SE: every link in a path is judged, also those behind a link of the user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.project.links_out import project_left


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A clone, a private folder, and a folder with links of the user."""
    for folder in ("clone/configs", "clone/code/part", "private/part", "links"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("out", ["../private", "/private", "a/../../private", "b", "./b/part"])
@pytest.mark.parametrize("mine", ["../clone/sub", "../clone/sub/part", "/clone/sub", "near/sub", "other/../sub"])
def test_SE_a_link_of_the_clone_behind_links_of_the_user_leads_out(places: Path, mine: str, out: str) -> None:
    links = {"clone/a": "code", "clone/b": "../links/home", "clone/sub": out, "links/home": "../private"}
    links |= {"links/near": "../clone", "links/other": "../clone/code", "links/mine": mine}
    for link, target in links.items():
        (places / link).symlink_to(f"{places}{target}" if target.startswith("/") else target)
    for path in ("links/mine", "links/mine/x/..", "clone/../links/mine"):
        assert project_left(places / path) == places / "clone"


def test_links_of_the_user_to_a_project_and_within_a_project_lead_nowhere_else(places: Path) -> None:
    (places / "links/to").symlink_to("../clone")
    (places / "links/again").symlink_to(places / "links/to")
    (places / "links/home").symlink_to(places / "private")
    (places / "clone/near").symlink_to("code/../code")
    (places / "clone/back").symlink_to(places / "links/to/code")
    for path in ("links/to", "links/again/code", "links/home/part", "links/to/near/part", "links/again/back/part"):
        assert project_left(places / path) is None, path


def test_circular_and_unreadable_links_end(places: Path) -> None:
    (places / "links/one").symlink_to("two")
    (places / "links/two").symlink_to("one/more")
    assert project_left(places / "links/one/x") is None
    assert project_left(places / f"links/{'x' * 5000}") is None
    (places / "links/many0").symlink_to("../private")
    for at in range(1, 60):
        (places / f"links/many{at}").symlink_to(f"many{at - 1}")
    assert project_left(places / "links/many59") is None
    assert project_left(Path(os.sep)) is None
