"""Training processes: start once, supervise, judge, resume. docs/jobs.md describes the parts of this package."""
