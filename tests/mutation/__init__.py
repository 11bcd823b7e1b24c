"""Mutation testing: does a test fail when a line of the package is wrong?"""
