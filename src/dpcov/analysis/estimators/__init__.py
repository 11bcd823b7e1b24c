"""Estimators in the manner of scikit-learn that read a release."""
