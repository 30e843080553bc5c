"""The readers of a precision in a file, and the spelling that all readers of an option accept."""

from __future__ import annotations

import pytest

from fixers.sources.python import read_python
from fixers.sources.readers.bf16_values import bf16_values_in_python, bf16_values_in_text
from fixers.sources.readers.consumers import BF16Value, Consumers
from fixers.sources.readers.find import find_fields, find_readers, is_test, may_contain_readers
from fixers.sources.readers.reader import ANY, Fields, Reader


@pytest.mark.parametrize(
    ("code", "option", "words", "strict", "extensible"),
    [
        ('p.add_argument("--dtype", choices=["bf16", "no"])', "dtype", ("bf16", "no"), True, True),
        ('if cfg.amp.lower() == "bf16":\n    x = 1', "amp", ("bf16",), False, False),
        ('if cfg.amp not in ("bf16", "no"):\n    raise ValueError', "amp", ("bf16", "no"), True, True),
        ('assert cfg["amp"] == "bf16" or cfg["amp"] == "no"', "amp", ("bf16", "no"), True, False),
        ('x = {"bf16": torch.bfloat16}[args.precision]', "precision", ("bf16",), True, True),
        ('T = {"bf16": a, "no": b}', ANY, ("bf16", "no"), True, False),
        ('def f(name):\n    return {"bf16": a, "no": b}[name]', ANY, ("bf16", "no"), True, False),
        ('name = args.dtype\nx = {"bf16": a, "no": b}[name]', "dtype", ("bf16", "no"), True, False),
        ('class P(Enum):\n    BF16 = "bf16"\n    NO = "no"', ANY, ("BF16", "bf16", "NO", "no"), True, False),
        ('def f(amp: Literal["bf16", "no"] | None): ...', "amp", ("bf16", "no"), True, True),
        ('x = torch.bfloat16 if o.get("amp") == "bf16" else torch.float', "amp", ("bf16",), True, True),
        ('if s.amp == "bf16":\n    x = torch.bfloat16\nelse:\n    y()', "amp", ("bf16",), False, False),
        ('if info["dtype"] == "bf16":\n    x = x.view(torch.bfloat16)', "dtype", ("bf16",), False, False),
        ("assert x.dtype == torch.bfloat16", "dtype", ("dtype:bfloat16",), True, False),
        (
            'if precision in (16, "bf16"):\n    pass\nelse:\n    exit(1)',
            "precision",
            ("number:16", "bf16"),
            True,
            False,
        ),
    ],
)
def test_a_reader_has_an_option_its_accepted_words_and_the_effect_of_other_words(
    code: str, option: str, words: tuple[str, ...], strict: bool, extensible: bool
) -> None:
    source = read_python("train.py", f"import torch\nfrom enum import Enum\n{code}\n".encode())
    (found,) = find_readers(source)
    reader = found.reader
    assert (reader.option, reader.words, reader.strict, reader.extensible) == (option, words, strict, extensible)


@pytest.mark.parametrize(
    "code",
    [
        'if p == "fp32":\n    x = torch.float\nelif p == "bf16":\n    x = torch.bfloat16\nelse:\n    x = torch.half',
        'x = torch.bfloat16 if p == "bf16" else torch.float16',
        'SIZES = {"F32": 4, "BF16": 2}',
        'T = {"bf16": {"enabled": True}, "fp16": {"enabled": False}}',
        'print("bf16")',
    ],
)
def test_code_that_selects_float16_for_every_other_word_is_no_reader(code: str) -> None:
    assert find_readers(read_python("train.py", f"import torch\n{code}\n".encode())) == ()


def reader(path: str, *words: str, option: str = "precision", strict: bool = True, extensible: bool = False) -> Reader:
    return Reader(path, 1, option, words, strict, extensible)


@pytest.mark.parametrize(
    ("readers", "word", "refused"),
    [
        ((), "fp16", ""),
        ((reader("a.py", "bf16", "half"),), "half", ""),
        ((reader("a.py", "bf16", "half", option="other"),), "fp16", ""),
        ((reader("a.py", "bfloat16", "float16"),), "fp16", ""),
        ((reader("a.py", "bf16", "half"), reader("b.py", "bf16", "fp16", "half", option=ANY)), "half", ""),
        ((reader("a.py", "bf16", "half"), reader("b.py", "bf16", "fp16")), "fp16", "a.py:1"),
        ((reader("a.py", "bf16", "half"), reader("b.py", "bf16", strict=False)), "half", ""),
        ((reader("a.py", "bf16", extensible=True), reader("b.py", "bf16", "fp16", "half")), "fp16", ""),
        ((reader("a.py", "bf16", "16", option="mixed_precision"),), "16", ""),
    ],
)
def test_a_spelling_must_be_accepted_by_every_reader_that_the_value_reaches(
    readers: tuple[Reader, ...], word: str, refused: str
) -> None:
    answer = Consumers(readers).resolve(BF16Value("precision", "bf16", "conf.yaml"), "fp16")
    assert (answer.word, answer.refused_by.where if answer.refused_by else "") == (word, refused)


@pytest.mark.parametrize(
    ("path", "program", "word"),
    [
        ("a/train.py", "", "half"),
        ("b/train.py", "", "float16"),
        ("a/conf/x.yaml", "", "half"),
        ("run.sh", "b/train.py", "float16"),
        ("b/run.sh", "train.py", "float16"),
        ("c/conf.yaml", "", "fp16"),
    ],
)
def test_scripts_of_other_folders_do_not_count(path: str, program: str, word: str) -> None:
    readers = (reader("a/train.py", "bf16", "half"), reader("b/train.py", "bf16", "float16"))
    consumers = Consumers(readers, scripts=("a/train.py", "b/train.py"))
    answer = consumers.resolve(BF16Value("precision", "bf16", path, program), "fp16")
    assert answer.word == word


def test_a_number_in_yaml_is_not_a_string() -> None:
    consumers = Consumers((reader("a.py", "bf16", "number:16"),))
    assert consumers.resolve(BF16Value("precision", "bf16", "c.yaml", plain=True), "fp16").word == "16"
    assert consumers.resolve(BF16Value("precision", "bf16", "run.sh"), "fp16").refused_by is not None


@pytest.mark.parametrize(
    ("fields", "into_trainer", "word", "refused"),
    [
        ((), False, "fp16", False),
        ((Fields("a.py", 3, "A", ("bf16",)),), False, "fp16", True),
        ((Fields("a.py", 3, "A", ("bf16",)),), True, "fp16", False),
        ((Fields("a.py", 3, "A", ("bf16",), declares_both=True),), False, "fp16", False),
        ((Fields("a.py", 3, "A", ("bf16",), ("Unknown",)),), False, "fp16", False),
        ((Fields("a.py", 3, "A", ("bf16",), ("BaseModel",)),), False, "fp16", True),
        ((Fields("a.py", 3, "A", ("bf16",), ("B",)), Fields("b.py", 1, "B", ("fp16",))), False, "fp16", False),
        ((Fields("a.py", 3, "A", ("bf16", "use_fp16")),), False, "use_fp16", False),
    ],
)
def test_a_switch_is_renamed_to_one_that_its_class_declares(
    fields: tuple[Fields, ...], into_trainer: bool, word: str, refused: bool
) -> None:
    answer = Consumers(fields=fields).resolve_switch("bf16", "fp16", into_trainer)
    assert (answer.word, answer.refused_by is not None) == (word, refused)


def test_a_class_is_described_by_its_switches_and_bases() -> None:
    code = (
        b"class A(transformers.TrainingArguments):\n    lr: float = 1\n    bf16: bool = True\n\n\nclass B:\n    x: X\n"
    )
    (fields,) = find_fields(read_python("a.py", b"import transformers\n" + code))
    assert fields == Fields("a.py", 4, "A", ("bf16",), ("TrainingArguments",), True)


def test_values_that_a_project_selects_are_found_in_code_and_in_settings() -> None:
    code = b'def f(precision="bf16"): ...\nx = y == "bf16"\ng(dtype="bfloat16")\n'
    assert {(each.option, each.word) for each in bf16_values_in_python(read_python("a.py", code))} == {
        ("precision", "bf16"),
        ("dtype", "bfloat16"),
    }
    text = b"a.precision: bf16\nname: bf16\n# run: x --torch-dtype=bfloat16 --mixed_precision \\\n bf16\n"
    assert {(each.option, each.word) for each in bf16_values_in_text("a.yaml", text)} == {
        ("precision", "bf16"),
        ("torch_dtype", "bfloat16"),
        ("mixed_precision", "bf16"),
    }


@pytest.mark.parametrize(
    ("data", "holds"),
    [
        (b'x = "bf16"', True),
        (b"    bf16: bool = True", True),
        (b"assert x == torch.bfloat16", True),
        (b"x.to(torch.bfloat16)", False),
        (b"# use bf16", False),
    ],
)
def test_most_files_are_not_parsed_for_readers(data: bytes, holds: bool) -> None:
    assert may_contain_readers(data) is holds


@pytest.mark.parametrize(
    ("path", "test"),
    [("tests/a.py", True), ("a/test_b.py", True), ("tests_v1/c/a.py", True), ("latest/a.py", False), ("a.py", False)],
)
def test_asserts_of_tests_are_no_readers(path: str, test: bool) -> None:
    assert is_test(path) is test
