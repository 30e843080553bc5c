"""Which fixers run, and how their changes are combined into one plan."""

import gc

import pytest

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.site import Site
from fixers.frame.target import Target
from fixers.plans.chosen_fixers import chosen_names
from fixers.plans.merged_changes import one_change_each
from fixers.plans.site_plan import applies, plan_fixes
from fixers.registry import setup_fixers, source_fixers
from remote.errors import BadUsage
from remote.protocol.findings import Finding, Severity
from tests.fixers.casebook import AMPERE, TITAN_RTX
from tests.fixers.setup_rig import MemoryTree, card

BROUGHT = {"bf16-to-fp16", "trainable-fp32", "scaler-gate"}
EVERY = {fixer.name for fixer in (*source_fixers(), *setup_fixers())}


@pytest.mark.parametrize(
    ("only", "settings", "config", "chosen"),
    [
        (None, {}, {}, EVERY - {"trainer-resume", "port"}),
        (None, {}, {"precision": "auto"}, EVERY),
        (["trainer-resume"], {}, {}, {"trainer-resume"}),
        (["port"], {}, {}, {"port"}),
        (["port", "tokenizer"], {}, {}, {"port", "tokenizer"}),
        ([], {}, {}, set()),
        (["bf16-to-fp16"], {}, {}, BROUGHT),
        (["bf16-to-fp16"], {"trainable-fp32": "off"}, {}, BROUGHT - {"trainable-fp32"}),
        (["bf16-to-fp16"], {}, {"precision": "fp16-pure"}, BROUGHT - {"trainable-fp32"}),
        (["bf16-to-fp16"], {}, {"precision": "auto"}, BROUGHT),
        (None, {"port": False, "tokenizer": "never"}, {}, EVERY - {"port", "tokenizer", "trainer-resume"}),
        (["port"], {"port": "off"}, {}, set()),
        (["port"], {"port": "auto"}, {}, {"port"}),
        (["port"], {"port": {"path": "x"}}, {}, {"port"}),
    ],
)
def test_the_config_and_the_command_line_choose_the_fixers(only, settings, config, chosen):
    assert chosen_names(Site(MemoryTree({}), settings=settings, config=config), only) == chosen


def test_an_unknown_fixer_is_bad_usage_with_a_hint():
    with pytest.raises(BadUsage) as refusal:
        chosen_names(Site(MemoryTree({})), ["zz-none", "a-none", "port"])
    assert refusal.value.message == "unknown fixer: 'a-none'"
    assert refusal.value.hint == "pipeline explain"


@pytest.mark.parametrize(
    ("gpu", "below", "acts"),
    [
        (TITAN_RTX, (8, 0), True),
        (AMPERE, (8, 0), False),
        (card(capability=(7, 9)), (8, 0), True),
        (None, (8, 0), False),
        (None, None, True),
        (AMPERE, None, True),
    ],
)
def test_a_fixer_for_old_cards_acts_only_on_known_old_cards(gpu, below, acts):
    class Fixer:
        pass

    Fixer.below = below
    assert applies(Fixer, Target(gpu)) is acts


@pytest.mark.parametrize(
    ("installed", "version", "expected"),
    [
        (None, (5,), None),
        ("5.0.0", (5,), True),
        ("5", (5,), True),
        ("4.57.3", (5,), False),
        ("4.46", (4, 46), True),
        ("4.45.2", (4, 46), False),
        ("4.46.0.dev9", (4, 46, 0), True),
        ("10.0", (5,), True),
    ],
)
def test_at_least_compares_versions_and_is_none_for_an_unknown_package(installed, version, expected):
    packages = {} if installed is None else {"transformers": installed}
    assert Target(packages=packages).at_least("transformers", version) is expected


A = FileChange("a", b"1", b"2", {"x": 1}, ("one",))
THEN = FileChange("a", b"2", b"3", {"y": 2}, ("two",))
BACK = FileChange("a", b"2", b"1", {"y": 2}, ("two",))
OTHER = FileChange("b", b"1", b"2", {"x": 1}, ("one",))
ON_HOST = HostChange("t", "s", "op", {"path": "a"})


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ((), ()),
        ((A, OTHER), (A, OTHER)),
        ((A, THEN), (FileChange("a", b"1", b"3", {"x": 1, "y": 2}, ("one", "two")),)),
        ((A, OTHER, THEN), (FileChange("a", b"1", b"3", {"x": 1, "y": 2}, ("one", "two")), OTHER)),
        ((A, BACK), ()),
        ((ON_HOST, A, ON_HOST), (ON_HOST, A, ON_HOST)),
    ],
)
def test_the_edits_of_several_fixers_in_a_file_are_one_change(changes, wanted):
    finding = Finding("x", Severity.INFO, "m")
    assert one_change_each(Plan((finding,), changes)) == Plan((finding,), wanted)


@pytest.mark.parametrize("collects", [True, False])
def test_planning_leaves_garbage_collection_as_it_was(collects):
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        plan_fixes(Site(MemoryTree({"a.py": b"import torch\nx = torch.bfloat16\n"}), gpu=TITAN_RTX))
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
