"""Exact sums in integers: second moments, linear maps, and what scaling rows down takes."""
