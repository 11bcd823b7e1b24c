"""Pages that people read: a release explained, and a plan to choose a budget by.

Contract: every page is one file without network access, scripts from elsewhere or unescaped names, and shows
nothing that is not in the release (or the plan) it was made from.  Never imports what touches rows or
randomness.
"""

from dpcov.report.release_page import render_release

__all__ = ["render_release"]
