"""The places of a project that read its precision settings: which values each accepts."""
