"""Training processes: started once, kept, watched, judged, taken up again."""
