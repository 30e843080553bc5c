"""The error that a failed command printed, among progress bars and other output."""

import pytest

from remote.payload.proof.failure_text import failure_text

RAISES = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    fit()\n'
BAR = "  0%|          | 0/48 [01:31<?, ?it/s]"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (f"{RAISES}ValueError: no pad token\n{BAR}\n", "ValueError: no pad token"),
        (f"\r{BAR}\r{BAR}{RAISES}ValueError: no pad token\n", "ValueError: no pad token"),
        (
            f"{RAISES}RuntimeError: sizes differ\n\x1b[1;34mwandb\x1b[0m: \x1b[1mwandb sync offline-run-1\x1b[0m\n",
            "RuntimeError: sizes differ",
        ),
        (
            f"[rank1]: {RAISES}[rank1]: KeyError: 'audio'\n{RAISES}torch.x.errors.ChildFailedError: \nfit.py FAILED\n",
            "KeyError: 'audio'",
        ),
        (
            f"{RAISES}KeyError: 1\n\nDuring handling of it:\n\n{RAISES}own.Stop: again\nmore of the message\n",
            "own.Stop: again",
        ),
        ("fit.py: error: unrecognized arguments: --x\n", "fit.py: error: unrecognized arguments: --x"),
        (f"\x1b[31mno such card\x1b[0m\n{BAR}\nwandb: Find logs at: wandb/run-1\n\n", "no such card"),
        (f"{BAR}\n100%|##| 4/4\r\n", ""),
        ("", ""),
    ],
)
def test_the_error_is_found_in_the_output(output: str, text: str) -> None:
    assert failure_text(output) == text
