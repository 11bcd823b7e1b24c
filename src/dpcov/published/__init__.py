"""A release: what crosses the privacy boundary, and everything that can be read from it.

Contract: never imports what touches rows, exact moments or randomness.
"""
