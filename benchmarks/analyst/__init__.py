"""What analysts read from a release: correlations, coefficients and intervals, whatever bounds were typed."""
