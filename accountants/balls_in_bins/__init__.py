"""Deterministic bounds for balls-in-bins with any non-negative lower-triangular C.

Everything is a function of the Gram matrix G of the b mixture means and of σ (math/balls-in-bins.md, section (a)).
"""
