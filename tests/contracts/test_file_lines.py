"""Files whose format another program defines are split at line feeds only."""

from __future__ import annotations

import ast

from tests.contracts.project_modules import modules

ROOMS = ("remote.link", "remote.project", "pipeline.hosts")
"""The packages that read known_hosts, ssh's configuration, /etc/hosts and git's files."""


def test_SE_no_file_of_another_program_is_split_at_unicode_line_ends() -> None:
    found = [
        f"{module.where}:{node.lineno}"
        for module in modules()
        if module.name.startswith(ROOMS)
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Attribute) and node.attr == "splitlines")
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and ".splitlines(" in node.value)
    ]
    assert found == [], "use file_lines of remote.protocol.text, or split at a line feed"
