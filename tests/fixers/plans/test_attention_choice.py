"""FlashAttention is replaced by what the project's models have, and only where its callers rely on the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

NO_SDPA = "class Model(PreTrainedModel):\n    _supports_sdpa = False\n"
TABLE = 'ATTENTION_CLASSES = {\n    "eager": Plain,\n    "flash_attention_2": Fast,\n}\n'
FLASH = 'model = Model.from_pretrained("m", attn_implementation="flash_attention_2")\n'


def _planned(root: Path, files: dict[str, str]) -> Plan:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return plan_offers(Site(DiskTree(root), gpu=TITAN_RTX))


def _changed(root: Path, files: dict[str, str]) -> dict[str, str]:
    changes = (each for each in _planned(root, files).changes if isinstance(each, FileChange))
    return {each.path: (each.after or b"").decode() for each in changes}


@pytest.mark.parametrize(
    ("models", "word"),
    [
        (NO_SDPA, "eager"),
        (TABLE, "eager"),
        (NO_SDPA.replace("False", "True"), "sdpa"),
        (TABLE.replace("{", '{\n    "sdpa": Other,'), "sdpa"),
        ("x = 1\n", "sdpa"),
    ],
)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("train.py", FLASH),
        ("run.sh", "python train.py --attn_implementation flash_attention_2\n"),
        ("conf/a.yaml", "attn_implementation: flash_attention_2\n"),
    ],
)
def test_models_without_sdpa_get_eager_attention(tmp_path: Path, models: str, word: str, path: str, text: str) -> None:
    assert _changed(tmp_path, {"model.py": models, path: text})[path] == text.replace("flash_attention_2", word)


@pytest.mark.parametrize(
    ("value", "after"),
    [
        ('"flash_attention_2" if x else "eager"', '"eager" if x else "eager"'),
        ('"eager" if x else "flash_attention_2"', '"eager" if x else "eager"'),
        ('"flash_attention_2" if x else None', '"sdpa" if x else None'),
        ('"flash_attention_2" if x else "other"', '"sdpa" if x else "other"'),
    ],
)
def test_the_other_attention_of_a_choice_replaces_it(tmp_path: Path, value: str, after: str) -> None:
    assert _changed(tmp_path, {"a.py": f"config._attn_implementation = {value}\n"}) == {
        "a.py": f"config._attn_implementation = {after}\n"
    }


SWITCHED = 'config._attn_implementation = "flash_attention_2" if {test} else "{other}"\n'


@pytest.mark.parametrize("other", ["eager", "sdpa"])
@pytest.mark.parametrize("test", ["args.use_flash_attn", "use_flash_attention_2", "self.config.flash_attn"])
def test_the_branch_of_a_switch_stays_and_the_command_turns_the_switch_off(
    tmp_path: Path, test: str, other: str
) -> None:
    files = {"utils.py": SWITCHED.format(test=test, other=other), "run.sh": "python train.py --use_flash_attn True\n"}
    assert _changed(tmp_path, files) == {"run.sh": "python train.py --use_flash_attn False\n"}


@pytest.mark.parametrize("test", ["not args.use_flash_attn", "args.fast", "args.use_flash_attn == 2"])
def test_another_choice_of_flash_attention_becomes_the_other_attention(tmp_path: Path, test: str) -> None:
    assert list(_changed(tmp_path, {"utils.py": SWITCHED.format(test=test, other="eager")})) == ["utils.py"]


DEFAULT = "def patch(use_flash_attn=True, use_full=False):\n    return use_flash_attn\n\n\n"
METHOD = "class Net:\n    def __init__(self, size, *, use_flash_attn=True):\n        self.flash = use_flash_attn\n\n\n"


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (DEFAULT + "patch()\n", True),
        (DEFAULT + "patch(use_full=True)\n", True),
        (DEFAULT, False),
        (DEFAULT + "patch(args.flash)\n", False),
        (DEFAULT + "patch(use_flash_attn=args.flash)\n", False),
        (DEFAULT + "patch(**options)\n", False),
        (DEFAULT.replace("return use_flash_attn", "return patch()"), False),
        (METHOD + "net = Net(1)\n", True),
        (METHOD + "net = Net(1, use_flash_attn=args.flash)\n", False),
        (METHOD + "net = Other(1)\n", False),
        (METHOD.replace("self.flash = use_flash_attn", "super().__init__(size)") + "net = Net(1)\n", False),
        (METHOD.replace("self.flash = use_flash_attn", "self.set(locals())") + "net = Net(1)\n", True),
        (DEFAULT.replace("return use_flash_attn", "use_full = True") + "patch()\n", False),
    ],
)
def test_a_default_changes_only_if_a_call_in_its_file_relies_on_it(tmp_path: Path, text: str, changes: bool) -> None:
    plan = _planned(tmp_path, {"attend.py": text})
    assert bool(plan.changes) is changes
    assert bool(plan.skipped) is not changes
    assert plan.findings == ()


def test_a_default_that_no_code_reads_stays_also_if_a_call_in_another_file_relies_on_it(tmp_path: Path) -> None:
    init = "class Net:\n    def __init__(self, size, attn_implementation='flash_attention_2'):\n        {body}\n"
    files = {"train.py": "from net import Net\n\nnet = Net(1)\n", "net.py": init.format(body="self.size = size")}
    assert _changed(tmp_path, files) == {}
    reads = init.format(body="self.attention = attn_implementation")
    assert "'sdpa'" in _changed(tmp_path, {**files, "net.py": reads})["net.py"]


KERNEL = "from flash_attn import flash_attn_func\n\n\n{head}\n    y = flash_attn_func(q, k, v)\n"


@pytest.mark.parametrize(
    ("head", "reported"),
    [
        ("def forward(q, k, v):", True),
        ("class Attention:", True),
        ("if fast:", True),
        ("if is_flash_attn_2_available():", True),
        ("def forward_flashattn(q, k, v):", False),
        ("class PhiFlashAttention2:", False),
        ("class CLIPAttentionFA2:", False),
        ("if config.use_flash_attn:", False),
    ],
)
def test_a_kernel_is_reported_unless_its_owner_is_named_after_it(tmp_path: Path, head: str, reported: bool) -> None:
    findings = _planned(tmp_path, {"attend.py": KERNEL.format(head=head)}).findings
    assert [each.check for each in findings] == ["attention-to-sdpa"] * reported


LOADS = 'model = Model.from_pretrained("m", attn_implementation={attention})\n'
WITHOUT = {
    "a package that may be absent": 'attn = "flash_attention_2" if is_flash_attn_2_available() else "sdpa"\n'
    + LOADS.format(attention="attn"),
    "a package that is searched": "from importlib.util import find_spec\n\n"
    'attn = "flash_attention_2" if find_spec("flash_attn") is not None else "eager"\n' + LOADS.format(attention="attn"),
    "an import that may fail": f"try:\n    {FLASH}except ImportError:\n    " + LOADS.format(attention='"sdpa"'),
    "an import that may fail, before the load": 'try:\n    import flash_attn\n\n    attn = "flash_attention_2"\n'
    'except ImportError:\n    attn = "eager"\n' + LOADS.format(attention="attn"),
}
AGAIN = {
    "the error is raised again": f"try:\n    {FLASH}except OSError:\n    raise\n",
    "another test": 'attn = "flash_attention_2" if fast() else "sdpa"\n' + LOADS.format(attention="attn"),
}


@pytest.mark.parametrize("code", WITHOUT.values(), ids=WITHOUT)
def test_code_that_does_without_flash_attention_where_it_is_absent_stays(tmp_path: Path, code: str) -> None:
    assert _changed(tmp_path, {"train.py": code}) == {}


@pytest.mark.parametrize("code", AGAIN.values(), ids=AGAIN)
def test_code_that_always_needs_flash_attention_is_changed(tmp_path: Path, code: str) -> None:
    assert "flash_attention_2" not in _changed(tmp_path, {"train.py": code})["train.py"]
