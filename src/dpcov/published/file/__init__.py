"""A release file: what it holds, how it is checked, written and read."""
