"""What the user asks for: YAML in, frozen models out, every problem told at once."""
