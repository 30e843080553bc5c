"""Each reader of a project's records uses only signed records, or no decision depends on what it reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.contracts.project_modules import modules

PARSERS = {"read_json", "parse_record", "parse_signed", "read_in_place", "open_regular", "read_regular"}
SOURCES = ("remote.project.digests", "pipeline.records.signed", "remote.protocol.regular")
SIGNATURES = {"parse_signed", "read_in_place", "is_signed"}
SIGNED = {
    "pipeline.records.stage_checkpoints": "whether a stage is skipped",
    "pipeline.records.kept_cures": "which cures change the config",
    "pipeline.report.evidence": "the proof and the fixes in a report",
    "pipeline.records.runs": "host, config and settings of a run",
    "fixers.plans.plan_cache": "whether a file needs a fix",
}
"""What the record decides, by the module that reads it. The record must be signed by the user."""
UNSIGNED = {
    "pipeline.records.files": "shown: the process that holds a lock",
    "pipeline.records.layout": "the name of a run's folder; schemas are replaced unless they are equal to ours",
    "pipeline.records.run_inputs": "shown: the inputs that differ from an earlier run",
    "pipeline.report.saved": "shown: the report of a run, its output and its evaluation",
    "pipeline.actions.adapter_job": "compared: an equal evaluation in a report is not written again",
    "pipeline.hosts.output": "shown: the output of a run",
    "pipeline.stages.train": "shown: the diagnosis of a job's output",
    "pipeline.verbs.push": "published: the settings of the adapter that the user pushes",
    "fixers.plans.on_disk": "the originals that `fix --undo` restores in the project have the recorded digests",
    "remote.project.digests": "speed: a digest counts while size, mtime, ctime and inode of the file are the same",
    "remote.pull.digests": "speed: a digest counts while size, mtime and inode of the file are the same",
    "remote.sync.agreed": "speed: a manifest counts if its digest is that of the host's tree",
}
"""What the record is used for, by the module that reads it. None of this skips work or lets a check pass."""
NOT_RECORDS = {
    "fixers.frame.disk_tree": "the project's code",
    "fixers.setup.laptop_hub": "the user's download cache of huggingface_hub",
    "pipeline.config.document": "the project's configs",
    "pipeline.records.projects": "the project's configs",
    "pipeline.records.consents": "the user's configuration folder",
    "pipeline.records.signed": "the functions that the readers above call",
    "pipeline.config.hosts": "the file of `known_hosts:`, whose keys a confirmation states",
    "remote.link.bundle": "the user's cache",
    "remote.link.hosts_file": "/etc/hosts",
    "remote.link.ssh.host_keys": "known_hosts",
    "remote.link.ssh.key_files": "login keys",
    "remote.link.ssh.revoked_keys": "revoked keys",
    "remote.project.commit": "the project's .git",
    "remote.project.git_index": "the project's .git",
    "remote.project.rule_files": "the project's ignore files",
    "remote.project.user_folder": "the user's configuration folder",
    "pipeline.actions.adapter_evaluation": "the adapter that is sent",
}
"""Modules that use the same functions to read other files."""


def calls_of_parsers(tree: ast.Module) -> Iterator[str]:
    """Yield the functions in PARSERS that the module imports from SOURCES."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in SOURCES:
            yield from (name.name for name in node.names if name.name in PARSERS)


def imported_names(tree: ast.Module) -> set[str]:
    return {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}


@cache
def readers() -> dict[str, ast.Module]:
    """Return the modules of the laptop that read records, by name."""
    laptop = [module for module in modules() if not module.name.startswith(("remote.payload", "remote.protocol"))]
    defines = ("remote.project.digests",)
    return {one.name: one.tree for one in laptop if one.name in defines or any(calls_of_parsers(one.tree))}


def test_SE_12_each_reader_of_records_is_listed_with_what_its_record_decides() -> None:
    listed = [*SIGNED, *UNSIGNED, *NOT_RECORDS]
    assert sorted(readers()) == sorted(listed), "list a new reader in SIGNED, unless nothing depends on what it reads"


@pytest.mark.parametrize("name", SIGNED)
def test_SE_12_a_record_that_decides_something_is_read_with_its_signature(name: str) -> None:
    assert imported_names(readers()[name]) & SIGNATURES
    assert not imported_names(readers()[name]) & {"read_json"}, "it would read the record without its signature"


def test_SE_12_the_records_of_a_config_on_a_host_are_written_only_with_a_signature_for_their_path() -> None:
    names = ("pipeline.records.stage_checkpoints", "pipeline.records.kept_cures", "pipeline.report.evidence")
    for name in names:
        imported = imported_names(readers()[name])
        assert {"read_in_place", "write_in_place"} <= imported and "write_atomic" not in imported, name


def test_SE_every_module_that_looks_for_configs_reads_them_only_by_pipeline_config() -> None:
    names = {"list_configs", "list_hosts", "find_config", "find_host"}
    users = [
        one for one in modules() if not one.name.startswith("pipeline.config.") and imported_names(one.tree) & names
    ]
    assert users
    for module in users:
        assert module.name not in readers(), f"{module.name}: read_config refuses links out of the project"
        called = {node.attr for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
        assert not called & {"read_text", "read_bytes"}, module.name
