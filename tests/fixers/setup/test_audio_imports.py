"""The audio decoders that a project imports."""

import pytest

from fixers.setup.audio_imports import AudioUse, uses_in, uses_of
from tests.fixers.setup_rig import MemoryTree

NOTHING = AudioUse()


def decoded_with(*packages):
    return AudioUse(frozenset(packages))


DATASETS = AudioUse(frozenset(), True)


@pytest.mark.parametrize(
    ("code", "use"),
    [
        ("import soundfile as sf", decoded_with("soundfile")),
        ("import soundfile, torch, librosa.core", decoded_with("soundfile", "librosa")),
        ("from torchaudio.transforms import Resample", decoded_with("torchaudio")),
        ("def f():\n    import librosa", decoded_with("librosa")),
        ("if x:\n    from torchcodec.decoders import AudioDecoder", decoded_with("torchcodec")),
        ("try:\n    import torchcodec\nexcept ImportError:\n    torchcodec = None", NOTHING),
        (
            "try:\n    import torchcodec\nexcept ImportError:\n    import soundfile\nimport librosa",
            decoded_with("librosa"),
        ),
        ("# import soundfile", NOTHING),
        ("import soundfiles", NOTHING),
        ("import my.soundfile", NOTHING),
        ("from . import soundfile", NOTHING),
        ("from .soundfile import read", NOTHING),
        ("from ..librosa import load", NOTHING),
        ("import soundfile (", NOTHING),
        ("import soundfile\0", NOTHING),
        ("from datasets import Audio, load_dataset\nd.cast_column('a', Audio(sampling_rate=16000))", DATASETS),
        ("import datasets\nd.cast_column('a', datasets.Audio())", DATASETS),
        ("from datasets import Audio\nd.cast_column('a', Audio(decode=False))", NOTHING),
        ("from datasets import Audio\nd.cast_column('a', Audio(decode=True))", DATASETS),
        ("from datasets import Audio\nd.cast_column('a', Audio(decode=0))", DATASETS),
        ("from datasets import Audio\nd.cast_column('a', Audio(decode=keep))", DATASETS),
        ("from datasets import Audio\nd.cast_column('a', Audio(mono=False))", DATASETS),
        ("from datasets import Audio\na = Audio(decode=False)\nb = Audio()", DATASETS),
        ("from datasets import Audio\nlog()()\nd.cast_column('a', Audio())", DATASETS),
        ("from datasets import Audio, Features\nf = Features({'a': Audio})", NOTHING),
        ("from datasets import load_dataset\nload_dataset('a')", NOTHING),
        ("from IPython.display import Audio\nAudio(x)", NOTHING),
    ],
)
def test_the_audio_libraries_of_a_file_are_found(code, use):
    assert uses_in(code.encode()) == use


def test_tests_of_the_project_and_other_files_do_not_count():
    tree = MemoryTree(
        {
            "a.py": b"import librosa",
            "deep/d.py": b"import soundfile",
            "plain.py": b"import json",
            "tests/b.py": b"import torchcodec",
            "lib/tests/b.py": b"import torchcodec",
            "c.txt": b"import torchaudio",
        }
    )
    assert uses_of(tree) == decoded_with("librosa", "soundfile")
    assert uses_of(MemoryTree({"contests.py": b"import librosa"})) == decoded_with("librosa")


def test_one_file_that_decodes_with_datasets_is_enough():
    files = {"a.py": b"from datasets import Audio\nAudio()", "b.py": b"import datasets", "c.py": b"import soundfile"}
    assert uses_of(MemoryTree(files)) == AudioUse(frozenset({"soundfile"}), True)


def test_the_built_in_trainer_uses_soundfile():
    assert uses_of(MemoryTree({}), built_in=True) == decoded_with("soundfile")
    assert uses_of(MemoryTree({"a.py": b"import librosa"}), built_in=True) == decoded_with("librosa", "soundfile")
    assert uses_of(MemoryTree({})) == NOTHING
