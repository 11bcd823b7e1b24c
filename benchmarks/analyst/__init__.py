"""Measure what analysts read: correlations, coefficients and intervals, for any bounds."""
