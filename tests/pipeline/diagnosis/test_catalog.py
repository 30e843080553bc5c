"""The catalog: each sample of an error is recognised by the entry that it belongs to, and every entry is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fixers.registry import setup_fixers, source_fixers
from pipeline.diagnosis.catalog import find_entry, identify, load_catalog
from pipeline.diagnosis.cures import CONFIG_CURES
from pipeline.diagnosis.diagnose import diagnose_text

ENTRIES = load_catalog()
SAMPLES = [(entry.id, sample) for entry in ENTRIES for sample in entry.samples]


def test_there_are_sixty_entries_or_more_and_no_name_twice():
    names = [entry.id for entry in ENTRIES]
    assert len(names) >= 60
    assert len(set(names)) == len(names)


def test_names_that_scripts_and_records_may_contain_are_kept():
    published = Path(__file__).with_name("published_ids.txt").read_text().split()
    assert set(published) <= {entry.id for entry in ENTRIES}


@pytest.mark.parametrize(("name", "sample"), SAMPLES)
def test_a_sample_is_recognised_by_its_own_entry(name, sample):
    assert identify(sample).id == name


@pytest.mark.parametrize(("name", "sample"), SAMPLES)
def test_a_log_with_nothing_but_the_sample_is_diagnosed_by_its_name_alone(name, sample):
    entry = find_entry(name)
    findings = diagnose_text(f"Epoch 1\n{sample}\n" * entry.repeats)
    expected = [] if entry.severity.value == "info" else [name]
    assert [finding.check for finding in findings] == expected


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_an_entry_is_complete(entry):
    assert re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", entry.id)
    assert entry.samples
    assert entry.sources
    assert entry.cause.endswith(".")
    assert entry.fix.endswith(".")


def test_every_cure_is_implemented():
    fixers = {fixer.name for fixer in (*source_fixers(), *setup_fixers())}
    for entry in ENTRIES:
        for cure in entry.cures:
            kind, _, name = cure.partition(":")
            assert kind in ("fixer", "config", "retry")
            if kind == "fixer":
                assert name in fixers, f"{entry.id} names the fixer {name}"
            if kind == "config":
                assert name in CONFIG_CURES
