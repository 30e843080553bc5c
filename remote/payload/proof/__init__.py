"""The proof that half precision works: run the command with hooks in its processes, and check the recorded evidence."""
