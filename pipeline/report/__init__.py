"""One run as one self-contained HTML page: what was fixed and proved, how it trained, what came of it."""
