"""Readers: the places in a project that read a precision setting, with the values that each accepts."""
