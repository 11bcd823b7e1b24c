"""``python -m dpcov`` is the ``dpcov`` command."""

from dpcov.cli.main import run

run()
