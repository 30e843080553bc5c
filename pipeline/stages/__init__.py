"""The six stages. Each declares what it depends on, checks whether its result still holds, and produces that result."""
