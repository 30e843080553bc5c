"""What runs on the GPU host: a zip with its own rule-book. Stdlib only, Python 3.9+, except training/ and the hooks."""
