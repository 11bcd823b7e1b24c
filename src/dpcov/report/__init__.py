"""Write pages that people read: a release explained, and the frame of a plan's page.

Contract: every page is one file without network access, foreign scripts or unescaped names.  It
shows what is in its release or plan.  Never imports what touches rows or randomness.
"""

from dpcov.report.release_page import render_release

__all__ = ["render_release"]
