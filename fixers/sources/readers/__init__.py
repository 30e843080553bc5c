"""Find readers: places where a project's code reads a precision setting, and the values that each place accepts."""
