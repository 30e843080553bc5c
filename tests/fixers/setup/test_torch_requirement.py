"""The torch setting: its pip arguments, and the nearest valid spelling of an invalid value."""

import pytest

from fixers.setup.torch_requirement import BadTorch, parse_torch_requirement


@pytest.mark.parametrize(
    ("value", "requirement"),
    [
        ("2.13.0", "torch==2.13.0"),
        ("2.13", "torch==2.13.*"),
        (2.13, "torch==2.13.*"),
        (2, "torch==2.*"),
        ("2.13.*", "torch==2.13.*"),
        ("2.13.0+cu126", "torch==2.13.0+cu126"),
        ("2.14.0rc1", "torch==2.14.0rc1"),
        ("2.14.0.dev20260101+cpu", "torch==2.14.0.dev20260101+cpu"),
        (">=2.4,<2.14", "torch>=2.4,<2.14"),
        (">= 2.4, < 2.14", "torch>=2.4,<2.14"),
        ("~=2.13.0", "torch~=2.13.0"),
        ("==2.13.*", "torch==2.13.*"),
        ("!=2.12.*,>=2.9", "torch!=2.12.*,>=2.9"),
        ("torch==2.13.0+cu126", "torch==2.13.0+cu126"),
        ("torch >= 2.4", "torch>=2.4"),
        ("torch", "torch"),
        ("torch @ https://example.org/torch-2.13.0.whl", "torch @ https://example.org/torch-2.13.0.whl"),
        ("", "torch"),
        (None, "torch"),
    ],
)
def test_a_version_a_specifier_and_a_requirement_are_accepted(value, requirement):
    assert parse_torch_requirement(value).requirement == requirement


@pytest.mark.parametrize(
    ("value", "nearest"),
    [
        ("v2.13.0", "2.13.0"),
        ("=2.13.0", "==2.13.0"),
        ("torch=2.13.0", "==2.13.0"),
        ("pytorch==2.13.0", "==2.13.0"),
        ("torch-2.13.0", "2.13.0"),
        ("2.13.x", "2.13.*"),
        ("2.13.0-cu126", "2.13.0+cu126"),
        ("=>2.4", ">=2.4"),
        (">=2.4 <2.14", ">=2.4,<2.14"),
        (">=2.4 and <2.14", ">=2.4,<2.14"),
        (">=2.4.*", ">=2.4"),
        ("^2.4", ">=2.4,<3"),
        ("2.13.", "2.13"),
        (2.1, "2.10"),
        ("latest", ""),
        ("torchvision==0.20", ""),
        ("numpy", ""),
        ("--index-url x", ""),
        ("2.13.0; rm -r /", ""),
    ],
)
def test_anything_else_is_refused_with_the_nearest_valid_spelling(value, nearest):
    with pytest.raises(BadTorch) as refusal:
        parse_torch_requirement(value)
    assert refusal.value.nearest == nearest
    assert not nearest or parse_torch_requirement(nearest)


@pytest.mark.parametrize(
    ("value", "minors"),
    [
        ("", "8 9 10 11 12 13"),
        ("2.11", "11"),
        ("2.11.2", "11"),
        ("2.*", "8 9 10 11 12 13"),
        (">=2.10", "10 11 12 13"),
        (">2.10", "10 11 12 13"),
        ("<2.10", "8 9"),
        ("<2.10.1", "8 9 10"),
        ("<=2.10", "8 9 10"),
        ("~=2.10", "10 11 12 13"),
        ("~=2.10.0", "10"),
        ("!=2.13.*", "8 9 10 11 12"),
        ("!=2.13.0", "8 9 10 11 12 13"),
        (">=2.9,<2.12", "9 10 11"),
        ("2.7", ""),
    ],
)
def test_a_requirement_says_which_minor_releases_it_allows(value, minors):
    setting = parse_torch_requirement(value)
    assert " ".join(str(minor) for minor in range(8, 14) if setting.allows(2, minor)) == minors
