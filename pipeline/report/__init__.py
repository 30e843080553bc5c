"""The HTML report of a run: fixes, proof, curves, jobs and results on one self-contained page."""
