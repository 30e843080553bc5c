"""Statements in the wrong place, which Python reports only when it generates code."""

import pytest

from fixers.sources.misplaced import find_misplaced
from fixers.sources.syntax import parse_python


def compiled(code):
    try:
        compile(code, "code", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error.lineno
    return None


def found(code):
    error = find_misplaced(parse_python(code))
    return None if error is None else error.lineno


@pytest.mark.parametrize(
    "code",
    [
        "x = 1\nreturn x\n",
        "class A:\n    return 1\n",
        "def f():\n    class A:\n        return 1\n",
        "@(yield)\ndef f(): pass\n",
        "x = 1\nyield x\n",
        "yield from x\n",
        "await x\n",
        "def f():\n    await x\n",
        "def f():\n    async with x: pass\n",
        "async def f():\n    def g():\n        async for a in b: pass\n",
        "if x:\n    break\n",
        "for a in b:\n    pass\nelse:\n    continue\n",
        "while a:\n    def f():\n        break\n",
        "while a:\n    class A:\n        continue\n",
        "def f():\n    print(x)\n    global x\n",
        "x = 1\nglobal x\n",
        "def f():\n    x = 1\n    def g():\n        x = 2\n        nonlocal x\n",
        "def f():\n    for a in b:\n        x = 1\n    global x\n",
    ],
)
def test_a_misplaced_statement_is_found_in_the_line_that_python_names(code):
    assert found(code) == compiled(code) and found(code)


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    return 1\n",
        "f = lambda: (yield)\n",
        "def f():\n    @(yield)\n    class A: pass\n",
        "async def f():\n    async with x: await y\n    return [await z async for z in w]\n",
        "g = (await x for x in y)\n",
        "for a in b:\n    if a:\n        break\n    try: pass\n    except E: continue\n    finally: pass\n",
        "for a in b:\n    while c: pass\n    else: break\n",
        "async def f():\n    async for a in b:\n        match a:\n            case 1: continue\n",
        "x = 1\ndef f():\n    global x\n    x += 1\n",
        "def f():\n    y = [x for x in z]\n    global x\n    x = 1\n",
        "def f(a: x) -> x:\n    global x\n    x = 1\n",
        "with a:\n    x = lambda b: [c if b else d for c in e]\n",
    ],
)
def test_statements_in_their_places_are_not_reported(code):
    assert found(code) is None and compiled(code) is None


@pytest.mark.parametrize("code", ["lambda: " * 90 + "a", "\n".join("a" * 3000), "[" * 60 + "a for a in b]" + "]" * 59])
def test_deep_and_long_code_is_checked_without_recursion(code):
    assert find_misplaced(parse_python(code)) is None
