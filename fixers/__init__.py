"""What is wrong with a project or a host, and the smallest change that puts it right."""
