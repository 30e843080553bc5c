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


@pytest.mark.parametrize(
    "code",
    [
        "import wandb\nfrom datasets import load_dataset\nrun.log({'clip': wandb.Audio(wave, sample_rate=16000)})",
        "import datasets, gradio as gr\ngr.Interface(f, inputs=gr.Audio(type='filepath'))",
        "from datasets import load_dataset\nfrom IPython.display import Audio\nAudio(wave, rate=16000)",
        "from datasets import load_dataset\nclass Audio:\n    pass\nAudio()",
        "import datasets\nfrom .features import Audio\nAudio()",
        "from datasets import load_dataset, Audio\ndef play(Audio):\n    return Audio(1)",
        "import datasets\nself.Audio()\nmake().Audio()",
        "from datasets import *\nfrom IPython.display import *\nAudio(wave)",
        "from datasets import *\ndef Audio(x):\n    return x\nAudio(wave)",
    ],
)
def test_a_class_of_another_module_that_is_called_audio_decodes_nothing(code):
    assert uses_in(code.encode()) == NOTHING


@pytest.mark.parametrize(
    "code",
    [
        "from datasets import Audio as Column\nd.cast_column('a', Column())",
        "import datasets as hf\nd.cast_column('a', hf.features.Audio(16000))",
        "from datasets.features import Audio\nd.cast_column('a', Audio())",
        "from datasets.features.audio import Audio\nd.cast_column('a', Audio())",
        "from transformers import *\nfrom datasets import *\nd.cast_column('a', Audio())",
        "import datasets\nColumn = datasets.Audio\nd.cast_column('a', Column())",
        "def load():\n    import wandb\n    from datasets import Audio\n    return d.cast_column('a', Audio())",
    ],
)
def test_audio_of_datasets_is_found_under_every_name(code):
    assert uses_in(code.encode()) == DATASETS


RAW, DECODED = "d = d.cast_column({}, Audio(decode=False))\n", "d = d.cast_column({}, Audio(sampling_rate=8000))\n"
IMPORT = "from datasets import Audio, Features\n"


@pytest.mark.parametrize(
    ("code", "use"),
    [
        (DECODED.format("'a'") + RAW.format("'a'"), NOTHING),
        (RAW.format("'a'") + DECODED.format("'a'"), DATASETS),
        (DECODED.format("'a'") + RAW.format("'b'"), DATASETS),
        ("f = Features({'a': Audio()})\n" + RAW.format("'a'"), NOTHING),
        ("f = Features(a=Audio(), b=Audio())\n" + RAW.format("'a'"), DATASETS),
        ("f['a'] = Audio()\nd = d.cast_column(column='a', feature=Audio(decode=False))", NOTHING),
        (RAW.format("args.column") + "def later():\n    return Features({'a': Audio()})", NOTHING),
        ("def raw(d):\n    " + RAW.format("'a'") + DECODED.format("'a'"), NOTHING),
        (DECODED.format("args.column") + RAW.format("'b'") + RAW.format("'a'"), NOTHING),
    ],
)
def test_a_column_is_not_decoded_once_its_bytes_are_kept(code, use):
    assert uses_in((IMPORT + code).encode()) == use


def test_a_column_whose_bytes_another_file_keeps_is_not_decoded():
    files = {"a.py": IMPORT + DECODED.format("'a'"), "b.py": IMPORT + RAW.format("'a'")}
    tree = MemoryTree({path: code.encode() for path, code in files.items()})
    assert uses_of(tree) == NOTHING and "torchcodec" not in uses_of(tree).places
    assert uses_of(MemoryTree({**tree.files, "b.py": (IMPORT + RAW.format("'b'")).encode()})) == DATASETS


@pytest.mark.parametrize("path", ["soundfile.py", "run/soundfile/__init__.py", "src/soundfile.py"])
def test_a_module_of_the_project_is_no_package(path):
    assert uses_of(MemoryTree({"run/train.py": b"import soundfile\n", path: b""})) == NOTHING


def test_the_audio_of_the_project_s_own_datasets_module_decodes_nothing():
    tree = MemoryTree({"train.py": b"from datasets import Audio\nAudio()\n", "datasets.py": b"class Audio: ...\n"})
    assert uses_of(tree) == NOTHING


def test_only_what_the_script_imports_at_its_start_is_always_needed():
    tree = MemoryTree({"train.py": b"import soundfile\ndef f():\n    import librosa\n"})
    assert uses_of(tree, command=["python", "train.py"]).always == {"soundfile"}
    assert uses_of(tree, command=["make", "train"]).always == frozenset()
