"""Training processes: started once, supervised, judged, resumed. docs/jobs.md names the parts of this package."""
