"""Errors about torchcodec are attributed to the library that needs it, at the line that calls this library."""

import pytest

from pipeline.diagnosis.diagnose import diagnose_text

PACKAGES = "/home/me/env/lib/python3.11/site-packages"
CODE = "/home/me/halfstep/projects/speech-0a1b2c3d/tree"
IN_TORCHAUDIO = f"""Traceback (most recent call last):
  File "{PACKAGES}/torchaudio/_torchcodec.py", line 82, in load_with_torchcodec
    from torchcodec.decoders import AudioDecoder
{{inner}}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "{{start}}", line 8, in <module>
    sys.exit(main())
  File "{{caller}}", line 316, in read
    audio, sr = torchaudio.load(audio)
  File "{PACKAGES}/torchaudio/__init__.py", line 86, in load
    return load_with_torchcodec(
  File "{PACKAGES}/torchaudio/_torchcodec.py", line 84, in load_with_torchcodec
    raise ImportError(
ImportError: TorchCodec is required for load_with_torchcodec. Please install torchcodec to use this function.
"""
MISSING = "ModuleNotFoundError: No module named 'torchcodec'"
BROKEN = "RuntimeError: Could not load libtorchcodec. Likely causes:"


@pytest.mark.parametrize("inner", [MISSING, BROKEN])
@pytest.mark.parametrize(
    ("start", "caller", "shown"),
    [
        ("/home/me/env/bin/llamafactory-cli", f"{PACKAGES}/llamafactory/mm.py", "llamafactory/mm.py:316 in read"),
        (f"{CODE}/train.py", f"{CODE}/data.py", "data.py:316 in read"),
        (f"{CODE}/train.py", f"{PACKAGES}/lhotse/audio.py", "train.py:8 in <module>"),
    ],
)
def test_the_line_that_calls_torchaudio_is_named_and_datasets_is_not(inner, start, caller, shown):
    (finding,) = diagnose_text(IN_TORCHAUDIO.format(inner=inner, start=start, caller=caller), "proof.log")
    assert finding.check == "torchaudio-torchcodec"
    assert finding.where.startswith(f"{shown}: ") and "proof.log, line " in finding.where
    assert "datasets" not in finding.message + finding.hint


@pytest.mark.parametrize(
    ("file", "error", "check"),
    [
        (f"{CODE}/data.py", MISSING, "module-missing"),
        (f"{PACKAGES}/datasets/features/audio.py", BROKEN, "torchcodec"),
        (
            f"{PACKAGES}/datasets/features/audio.py",
            "ImportError: To support decoding audio data, please install 'torchcodec'.",
            "torchcodec",
        ),
        (f"{PACKAGES}/torchaudio/__init__.py", "ModuleNotFoundError: No module named 'kaldi_io'", "module-missing"),
    ],
)
def test_other_errors_keep_their_own_explanation(file, error, check):
    text = f'Traceback (most recent call last):\n  File "{CODE}/train.py", line 3, in <module>\n    read()\n'
    text += f'  File "{file}", line 9, in read\n    decode()\n{error}\n'
    assert [one.check for one in diagnose_text(text)] == [check]
