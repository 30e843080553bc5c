"""Files of a project are read in a time and a memory that grow with their length, and not with its square."""

from __future__ import annotations

import ast
import time
import tracemalloc
from collections.abc import Callable

import pytest

from fixers.code.attention_to_sdpa import IN_COMMAND
from fixers.code.flash_fallbacks import may_fall_back
from fixers.plans.reached import PICKS, Reach
from fixers.sources.dockerfile import scan_dockerfile
from fixers.sources.flash_defaults import flash_defaults_in
from fixers.sources.function_roles import casts_data
from fixers.sources.makefile import scan_makefile
from fixers.sources.notebook import LINE_MAGIC
from fixers.sources.options import entries_of
from fixers.sources.python import CLOSES, TREES
from fixers.sources.splice import text_of
from pipeline.config.candidates import _trainers, _training_call_kind
from remote.project.scope import Scope


def cpu_s(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def called_on_a_literal(size: int) -> ast.Module:
    return ast.parse("y = ([" + "1," * size + "])" + ".a()" * 60 + "\n")


def doubled_options(size: int) -> object:
    """Dictionaries each of which contains the next one twice: `k0 = {**k1, **k1}`."""
    count = size // 1000
    lines = [f"k{number} = {{**k{number + 1}, **k{number + 1}}}" for number in range(count)]
    source = TREES.read("a.py", "\n".join([*lines, f"k{count} = {{'a': 1}}", "run(**k0)", ""]).encode())
    (call,) = source.names.of_type(ast.Call)
    return list(entries_of(source, call.keywords[0].value))


def test_a_dictionary_that_others_contain_twice_is_read_once() -> None:
    assert len(doubled_options(60_000)) == 1


def picks(text: bytes) -> bool:
    """Return whether the module may pick a function of another module by its name."""
    return Reach(lambda path: text, frozenset)._picks_by_name("a.py")


def test_a_module_is_taken_for_one_that_picks_functions_by_name_if_it_imports_the_object() -> None:
    assert picks(b"import data\ngetattr(data, name)\n") and not picks(b"getattr(self, name)\n")


def test_SE_a_module_with_many_objects_of_getattr_is_not_searched_for_each_of_them() -> None:
    text = b"".join(b"getattr(m%d, x)\n" % number for number in range(4000))
    once = cpu_s(lambda: PICKS.findall(text))
    assert cpu_s(lambda: picks(text)) < 20 * once + 0.1


READERS: dict[str, Callable[[int], object]] = {
    "blanks of a notebook": lambda size: LINE_MAGIC.match(" " * size + "x"),
    "words of a notebook": lambda size: LINE_MAGIC.match("a, " * size + "x"),
    "hyphens": lambda size: list(IN_COMMAND.finditer(b"flash_att" + b"-" * size)),
    "options": lambda size: list(IN_COMMAND.finditer(b"--a" * size)),
    "branches on FlashAttention": lambda size: may_fall_back(b"# " + b"if(flashatt" * (size // 11)),
    "ends of a branch": lambda size: may_fall_back(b"if(flashatt" + b": #else" * (size // 7) + b"s\n:"),
    "casts of data": lambda size: casts_data(b".data=.to(" * (size // 10)),
    "casts to other dtypes": lambda size: casts_data(b".data=" + b".to(float3" * (size // 10) + b")float32"),
    "defaults of arguments": lambda size: flash_defaults_in("a.py", b"# flash_att " + b"aattn" * (size // 5)),
    "comments after an argument": lambda size: CLOSES.match(b"\n" + b"#a" * (size // 2) + b"\n"),
    "comments and brackets": lambda size: CLOSES.match(b"\n#)#\n \\\n" * (size // 8)),
    "Makefile": lambda size: scan_makefile(b"a:\n" + b"\ta\n" * (size // 4)),
    "Dockerfile": lambda size: scan_dockerfile(b"RUN a\n" * (size // 4)),
    "Dockerfile with comments": lambda size: scan_dockerfile(b"RUN a \\\n# c\nb\n" * (size // 8)),
}


@pytest.mark.parametrize("name", READERS)
def test_SE_a_hostile_file_is_read_in_linear_time(name: str) -> None:
    read = READERS[name]
    read(1000)
    assert cpu_s(lambda: read(64_000)) < 40 * cpu_s(lambda: read(8_000)) + 0.05  # the square is 64 times as much


@pytest.mark.parametrize("scan", [scan_makefile, scan_dockerfile])
def test_SE_a_file_is_decoded_once_for_all_of_its_commands(scan: Callable[[bytes], object]) -> None:
    text_of.cache_clear()
    scan(b"a:\n\tb\n\tc\nRUN b\nRUN c \\\n# d\ne\nRUN f\n")
    assert text_of.cache_info().misses == 1 and text_of.cache_info().hits


def test_SE_a_literal_before_a_chain_of_calls_is_not_rendered_for_each_call() -> None:
    tree = called_on_a_literal(20_000)
    nodes = list(ast.walk(tree))
    once = cpu_s(lambda: ast.unparse(tree))
    assert cpu_s(lambda: [_training_call_kind(node, ()) for node in nodes]) < 4 * once


def test_SE_deep_paths_of_an_index_take_a_memory_like_their_length() -> None:
    paths = frozenset(f"{number:06}\U0001f600/" + "a/" * 2000 + "b" for number in range(20))
    scope = Scope()
    scope.__dict__["_keys"] = paths
    tracemalloc.start()
    assert scope.holds_tracked("000001\U0001f600/a") and not scope.holds_tracked("000001\U0001f600/b")
    assert not scope.holds_tracked("00000") and scope.holds_tracked("000019\U0001f600")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("self.trainers[0].train()", 4),
        ("get_trainer().fit()", 4),
        ("t = Trainer()\nt.train()", 4),
        ("(self.t) = my.Trainer(a)\nself.t.train()", 4),
        ("opts['optimizer'].step()", 2),
        ("model.train()", 0),
    ],
)
def test_training_calls_are_found_by_their_names(source: str, kinds: int) -> None:
    tree = ast.parse(source)
    trainers = set(_trainers(tree))
    found = {_training_call_kind(node, trainers) for node in ast.walk(tree)} - {0}
    assert found == ({kinds} if kinds else set())


def test_a_line_magic_is_still_found() -> None:
    lines = ("%time x", "  !ls", "a = !ls", "a, b = %who", "x?", "a.b??")
    assert all(LINE_MAGIC.match(line) for line in lines)
    assert not any(LINE_MAGIC.match(line) for line in ("a = 1", "  x", "a == b", "f(x) = !y"))


@pytest.mark.parametrize(
    ("line", "falls_back"),
    [
        ("x = bf16 if use_flash_attn else f32", True),
        ("elif cfg.FLASHATTN:  # comment", True),
        ("if (flash_attention): ", True),
        ("x = a if b else flash_attn", False),
        ("flash_attn if (a) else b", False),
        ("if flash_attn: pass", False),
        ("if flash_attnelse", False),
    ],
)
def test_a_line_with_a_branch_on_flash_attention_is_found(line: str, falls_back: bool) -> None:
    assert may_fall_back(f"a = 1\n{line}\nb = 2\n".encode()) == falls_back


@pytest.mark.parametrize(
    ("line", "casts"),
    [
        ("p.data = p.data.float()", True),
        ("p.data\t= p.to(a).to(device, torch.float32)", True),
        ("p.data = f(x.to(a, b.to(float32)))", True),
        ("p.data = p.to(a), float32", False),
        ("p.float().data = x", False),
        ("p.data.float()", False),
    ],
)
def test_a_line_that_casts_the_data_of_a_parameter_is_found(line: str, casts: bool) -> None:
    assert casts_data(f"a = 1\n{line}\nb = 2\n".encode()) == casts
