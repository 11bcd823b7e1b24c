* Means and covariances of a private release, and what Stata can do with them. Run: do NAME
* Standard errors and tests below do not count ${uncounted}: they are too small.
* Python's dpcov.analysis has intervals that do.
* Coefficients come from covariances, as release.covariance() has them. Those of
* PrivateLinearRegression may differ: it reads the second moment, takes all levels of a category
* together, and leaves out directions that the noise hides.

version 14
clear all
set more off
display ${title}
display ${guarantee}
display ${fingerprint}

matrix M = ${means}
matrix C = ${covariance}
matrix rownames C = ${all}
matrix colnames C = ${all}
matrix colnames M = ${all}

* Made-up rows that have exactly these means and covariances: as many as rows count as for errors.
corr2data ${all}, cov(C) means(M) n(${n_effective}) double clear forcepsd
${label_lines}

* Left out, because the noise hides them: ${left_out}
* Left out, because other levels are compared with them: ${references}
regress ${y} ${x}
display "These errors do not count ${uncounted}: they are too small."
capture noisily factor ${x} ${y}, factors(1)
