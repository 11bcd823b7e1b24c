"""The custodian's desk, as in the tests of the command line."""

from tests.cli.conftest import desk

__all__ = ["desk"]
