"""Which torch builds a card and a driver can run."""

import pytest

from fixers.setup.torch_builds import BUILDS, Choice, choose_build, driver_supports, runs_on

PRINTED = {
    ("cu126", (2, 8)): "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90",
    ("cu126", (2, 13)): "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90",
    ("cu128", (2, 8)): "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
    ("cu128", (2, 10)): "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
    ("cu128", (2, 11)): "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
    ("cu129", (2, 12)): "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
    ("cu129", (2, 13)): "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
    ("cu130", (2, 9)): "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
    ("cu130", (2, 13)): "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
    ("cu132", (2, 12)): "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
    ("cu132", (2, 13)): "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
}
"""What `torch.cuda.get_arch_list()` prints in the first and the last release of each row, machine code only."""


def test_every_build_has_the_architectures_that_it_prints():
    codes_of = {(build.tag, release): build.architectures for build in BUILDS for release in (build.since, build.until)}
    assert {key: " ".join(f"sm_{major}{minor}" for major, minor in codes) for key, codes in codes_of.items()} == PRINTED


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: f"{build.tag} since {build.since[1]}")
def test_the_tag_of_a_build_is_its_cuda_and_no_release_has_two_rows_of_a_tag(build):
    assert build.tag == f"cu{build.cuda[0]}{build.cuda[1]}"
    assert build.since <= build.until
    twins = [other for other in BUILDS if other.tag == build.tag and other is not build]
    assert all(other.until < build.since or build.until < other.since for other in twins)


PASCAL, VOLTA, TURING, ADA, HOPPER, BLACKWELL = (6, 1), (7, 0), (7, 5), (8, 9), (9, 0), (12, 0)


@pytest.mark.parametrize(
    ("capability", "driver", "newest", "choice"),
    [
        (TURING, "580.95.05", (2, 13), Choice((2, 13), "cu132")),
        (TURING, "579.99", (2, 13), Choice((2, 13), "cu129")),
        (TURING, "550.54.15", (2, 12), Choice((2, 12), "cu129")),
        (TURING, "535.183.01", (2, 11), Choice((2, 11), "cu128")),
        (TURING, "525", (2, 9), Choice((2, 9), "cu128")),
        (TURING, "580", (2, 11), Choice((2, 11), "cu130")),
        (TURING, "580", (2, 9), Choice((2, 9), "cu130")),
        (TURING, "580", (2, 8), Choice((2, 8), "cu128")),
        (TURING, "524.9", (2, 13), None),
        (TURING, "580", (2, 7), None),
        (TURING, "", (2, 13), None),
        (VOLTA, "580", (2, 13), Choice((2, 13), "cu126")),
        (VOLTA, "580", (2, 11), Choice((2, 11), "cu126")),
        (VOLTA, "580", (2, 10), Choice((2, 10), "cu128")),
        (PASCAL, "580", (2, 13), Choice((2, 13), "cu126")),
        (PASCAL, "525", (2, 8), Choice((2, 8), "cu126")),
        (ADA, "550.54.15", (2, 13), Choice((2, 13), "cu129")),
        (HOPPER, "525.60.13", (2, 8), Choice((2, 8), "cu128")),
        (BLACKWELL, "570", (2, 10), Choice((2, 10), "cu128")),
        (BLACKWELL, "580", (2, 14), Choice((2, 13), "cu132")),
        ((3, 7), "580", (2, 13), None),
    ],
)
def test_a_build_is_chosen_by_card_driver_and_release(capability, driver, newest, choice):
    assert choose_build(capability, driver, lambda major, minor: (major, minor) <= newest) == choice


def test_without_a_requirement_the_newest_release_that_is_known_is_chosen():
    assert choose_build(TURING, "580") == Choice((2, 13), "cu132")


@pytest.mark.parametrize(
    ("built", "card", "runs"),
    [
        ((7, 5), (7, 5), True),
        ((8, 0), (8, 9), True),
        ((8, 6), (8, 0), False),
        ((7, 5), (7, 0), False),
        ((7, 5), (8, 0), False),
        ((8, 0), (7, 5), False),
        ((9, 0), (10, 0), False),
    ],
)
def test_machine_code_runs_on_cards_of_its_major_and_no_lower_minor_capability(built, card, runs):
    assert runs_on((built,), card) is runs


@pytest.mark.parametrize(
    ("driver", "cuda", "carried"),
    [
        ("450.80.02", 11, True),
        ("449.9", 11, False),
        ("525.60.13", 12, True),
        ("524.9", 12, False),
        ("580", 13, True),
        ("579.1", 13, False),
        ("999", 10, False),
        ("999", 14, False),
        ("?", 12, False),
        ("\u00b2\u00b2\u00b2", 12, False),
        ("9" * 5000, 12, False),
        ("", 12, False),
    ],
)
def test_a_driver_supports_the_cuda_versions_of_its_branch_and_older_ones(driver, cuda, carried):
    assert driver_supports(driver, cuda) is carried
