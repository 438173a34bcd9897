"""Certificates: tests on fresh random samples, planned before sampling, that bound the δ of a noise multiplier chosen by them.

The released pair certified is the whole pipeline "pick σ by looking at samples that do not depend on the data, then train with it";
its δ is E[δ_sel], the average true δ of whatever is selected (math/certificates.md). `records` holds the values, `planning` fixes the
candidates and tests, `sampling` draws, `conclusion` decides and states the guarantee, `recheck` recomputes everything from a file.
"""
