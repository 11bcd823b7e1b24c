"""Symmetric matrices: coordinates, eigensystems, projections, threads and devices."""
