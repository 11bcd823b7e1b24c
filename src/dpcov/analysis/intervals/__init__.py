"""Confidence intervals that count sampling and privacy noise."""
