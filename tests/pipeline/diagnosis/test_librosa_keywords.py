"""Arguments that librosa accepts only by keyword, passed by position."""

from __future__ import annotations

import pytest

from pipeline.diagnosis.catalog import identify
from pipeline.diagnosis.diagnose import diagnose_log, diagnose_text

LOG = """Traceback (most recent call last):
  File "/home/me/halfstep/projects/w-7eed8d84/runs/r/code/train.py", line 40, in <module>
    main()
  File "/home/me/halfstep/projects/w-7eed8d84/runs/r/code/features.py", line 8, in bands
    basis = filters.mel(rate, size, 80, 0, 8000)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
TypeError: mel() takes 0 positional arguments but 5 were given
"""


def test_the_function_and_the_line_of_the_call_are_named() -> None:
    [finding] = diagnose_text(LOG)
    assert finding.check == "librosa-keywords"
    assert finding.message.endswith(": mel")
    [diagnosis] = diagnose_log(LOG)
    assert diagnosis.frame is not None
    assert (diagnosis.frame.path, diagnosis.frame.line) == ("features.py", 8)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("resample", "1 positional argument but 3 were given"),
        ("stft", "1 positional argument but 2 positional arguments (and 2 keyword-only arguments) were given"),
        ("chroma_stft", "0 positional arguments but 2 were given"),
        ("spectral_centroid", "0 positional arguments but 1 was given"),
        ("hz_to_mel", "1 positional argument but 2 were given"),
        ("mel_frequencies", "from 0 to 1 positional arguments but 4 were given"),
    ],
)
def test_every_function_of_this_form_is_recognised(call: str, given: str) -> None:
    entry = identify(f"TypeError: {call}() takes {given}")
    assert entry is not None and entry.id == "librosa-keywords"
    assert entry.name_in(f"TypeError: {call}() takes {given}") == call


@pytest.mark.parametrize(
    "text",
    [
        "TypeError: load() takes 1 positional argument but 2 were given",
        "TypeError: Features.mel() takes 1 positional argument but 3 were given",
        "TypeError: my_mel() takes 0 positional arguments but 5 were given",
        "TypeError: stft() takes from 2 to 10 positional arguments but 11 were given",
        "TypeError: resample() got an unexpected keyword argument 'rate'",
    ],
)
def test_other_functions_are_not_taken_for_those_of_librosa(text: str) -> None:
    entry = identify(text)
    assert entry is None or entry.id != "librosa-keywords"
