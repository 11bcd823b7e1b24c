"""Numerics without privacy: symmetric matrices, projections, shrinkage."""
