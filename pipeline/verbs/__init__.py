"""One module a verb: what is typed, what it calls, what it shows."""
