"""Python of a project is neither imported on the laptop, nor parsed there without limits."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.contracts.project_modules import Module, modules


def calls_of_our_interpreter(module: Module) -> Iterator[ast.Call]:
    """Yield each call whose first argument is a command that begins with `sys.executable`."""
    for node in ast.walk(module.tree):
        words = node.args[0] if isinstance(node, ast.Call) and node.args else None
        if isinstance(words, ast.List | ast.Tuple) and words.elts and ast.unparse(words.elts[0]) == "sys.executable":
            assert isinstance(node, ast.Call)
            yield node


def may_find_modules_of_a_project(call: ast.Call) -> bool:
    """Return True if the call sets no working folder and lets Python search the current one for modules."""
    literal = {word.value for word in ast.walk(call.args[0]) if isinstance(word, ast.Constant)}
    return not {"-I", "-P"} & literal and "cwd" not in {keyword.arg for keyword in call.keywords}


def test_SE_03_no_interpreter_on_the_laptop_searches_the_working_folder_for_modules() -> None:
    laptop = [module for module in modules() if not module.name.startswith("remote.payload")]
    calls = [(module, call) for module in laptop for call in calls_of_our_interpreter(module)]
    wrong = [f"{module.where}:{call.lineno}" for module, call in calls if may_find_modules_of_a_project(call)]
    assert len(calls) >= 2 and wrong == []


def test_python_of_projects_is_parsed_within_limits_only():
    own_text = {"fixers.sources.syntax", "fixers.sources.float16_refusals", "remote.link.host_hints"}
    laptop = [module for module in modules() if not module.name.startswith("remote.payload")]
    assert [m.name for m in laptop if "ast.parse(" in m.source and m.name not in own_text] == []


def calls_that_generate_code(tree: ast.AST) -> list[int]:
    """Return the lines of calls that generate Python code, or its tables of names, from a text."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    named = ((call.lineno, ast.unparse(call.func)) for call in calls)
    return [line for line, name in named if name in ("compile", "exec", "eval") or name.endswith("symtable")]


def test_the_laptop_generates_code_from_its_own_texts_only():
    own_text = {"remote.protocol.byte_code", "remote.protocol.dataclass"}
    laptop = [module for module in modules() if not module.name.startswith("remote.payload")]
    found = {module.name: lines for module in laptop if (lines := calls_that_generate_code(module.tree))}
    assert found.keys() == own_text


def test_calls_that_generate_code_are_recognised():
    assert calls_that_generate_code(ast.parse("compile(a)\nre.compile(a)\nsymtable.symtable(a)\n")) == [1, 3]
