"""The site of the documentation builds without a warning, and its pages load nothing from the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.docs.page import DOCS, ROOT

LOADS = re.compile(r"""<(?:script|img|iframe|source)[^>]+src=["']?([^"'\s>]+)|<link[^>]+href=["']?([^"'\s>]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. `--strict`: a dead link or anchor, or a page that the navigation lacks, is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_extra_docs_installs_what_builds_the_site() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {"train", "test", "docs"} <= set(extras)
    assert extras["docs"] == [line for line in extras["test"] if line.startswith("mkdocs")]


def test_every_page_is_built(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    built = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")} - {"404"}
    assert {page.replace("README", "index") for page in pages} == built


def test_a_page_loads_nothing_from_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = [one or other for one, other in LOADS.findall(page.read_text("utf-8"))]
        assert loaded and not [address for address in loaded if re.match(r"(https?:)?//", address)], page


def test_the_navigation_has_a_tutorial_how_to_guides_reference_and_explanation() -> None:
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert [next(iter(part)) for part in yaml.safe_load(settings)["nav"]] == [
        "Home",
        "Tutorial",
        "How-to",
        "Reference",
        "Explanation",
    ]
