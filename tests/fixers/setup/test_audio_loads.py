"""Projects that replace `torchaudio.load` by a function of their own."""

import pytest

from fixers.setup.audio_imports import uses_of
from tests.fixers.setup_rig import MemoryTree

REPLACED = b"import soundfile, torchaudio\ndef load(path): ...\ntorchaudio.load = load\n"
CALLS = b"import torchaudio\nwave, rate = torchaudio.load(path)\n"
KEPT = b"import torchaudio\noriginal = torchaudio.load\ndef load(path):\n    return original(path)\n"


def needs(**files: bytes) -> bool:
    tree = MemoryTree({f"{name}.py": data for name, data in files.items()})
    use = uses_of(tree, command=["python", "train.py"])
    assert use.torchaudio_load == ("torchcodec" in use.places)
    return use.torchaudio_load


@pytest.mark.parametrize(
    "code",
    [
        REPLACED,
        REPLACED + b"wave, rate = torchaudio.load(path)\n",
        b"import torchaudio as ta\nta.load = lambda path: read(path)\nta.load(path)\n",
        b"import torchaudio\nsetattr(torchaudio, 'load', read)\nwave, rate = torchaudio.load(path)\n",
        b"try:\n    import torchaudio\n    torchaudio.load = read\nexcept ImportError:\n    pass\n",
    ],
)
def test_an_assignment_to_torchaudio_load_replaces_the_function(code):
    assert not needs(train=code)
    assert not needs(train=b"import patch, data\n", patch=code, data=CALLS)


@pytest.mark.parametrize(
    "code",
    [
        CALLS,
        KEPT,
        KEPT + b"torchaudio.load = load\n",
        b"import torchaudio\nsetattr(torchaudio, 'load', cached(torchaudio.load))\n",
        b"import torchaudio\nfrom torchaudio import load\ntorchaudio.load = lambda path: load(path)\n",
        b"import torchaudio\nsetattr(torchaudio, 'save', write)\ntorchaudio.load(path)\n",
        b"import torchaudio\ntorchaudio.loader = read\ntorchaudio.load(path)\n",
        b"import torchaudio\ndel torchaudio.load_with_torchcodec\ntorchaudio.load(path)\n",
    ],
)
def test_the_original_function_still_needs_torchcodec(code):
    assert needs(train=code)


def test_a_function_that_another_file_imported_by_its_name_is_not_replaced():
    data = b"from torchaudio import load\nwave, rate = load(path)\n"
    assert needs(train=b"import patch, data\n", patch=REPLACED, data=data)


def test_a_replacement_in_a_file_that_the_command_does_not_reach_changes_nothing():
    assert needs(train=CALLS, other=REPLACED)
