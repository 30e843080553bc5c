"""Logs for tests of diagnosis, and the names of the entries found in a log."""

from __future__ import annotations

from pipeline.diagnosis.diagnose import diagnose_text

UNSCALE = """Traceback (most recent call last):
  File "train.py", line 90, in <module>
    trainer.train()
  File "/venv/lib/python3.11/site-packages/torch/amp/grad_scaler.py", line 264, in _unscale_grads_
    raise ValueError("Attempting to unscale FP16 gradients.")
ValueError: Attempting to unscale FP16 gradients.
"""


def checks(text):
    return [finding.check for finding in diagnose_text(text)]
