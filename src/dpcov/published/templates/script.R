# Means and covariances of a private release, and what R can do with them. Run: Rscript NAME.R
# Standard errors and tests below do not count ${uncounted}: they are too small.
# Python's dpcov.analysis has intervals that do.
# Coefficients come from covariances, as release.covariance() has them. Those of
# PrivateLinearRegression may differ: it reads the second moment, takes all levels of a category
# together, and leaves out directions that the noise hides.

rows <- list()
${covariance}

dpcov <- list(
  title = ${title},
  guarantee = ${guarantee},
  fingerprint = ${fingerprint},
  n.rows = ${n_rows},
  # What rows count as for sampling errors.
  n.effective = ${n_effective},
  names = ${names},
  labels = ${labels},
  mean = ${means},
  covariance = do.call(rbind, rows)
)
names(dpcov$$mean) <- names(dpcov$$labels) <- dpcov$$names
dimnames(dpcov$$covariance) <- list(dpcov$$names, dpcov$$names)

# Least squares from moments.
lm.from.moments <- function(y, x, S = dpcov$$covariance, m = dpcov$$mean, n = dpcov$$n.effective) {
  # Over an infinite scale, what has no variance gets no coefficient.
  scale <- sqrt(pmax(diag(S)[x], 0))
  scale[scale == 0] <- Inf
  e <- eigen(S[x, x, drop = FALSE] / outer(scale, scale), symmetric = TRUE)
  # Directions without variance have no coefficient.
  kept <- e$$values > max(e$$values, 0) * length(x) * 1e-12
  inverse <- e$$vectors %*% (ifelse(kept, 1 / e$$values, 0) * t(e$$vectors)) / outer(scale, scale)
  slopes <- drop(inverse %*% S[x, y])
  explained <- sum(slopes * S[x, y])
  left <- max(n - sum(kept) - 1, 1)
  residual <- max(S[y, y] - explained, 0) * n / left
  at <- m[x]
  errors <- sqrt(pmax(c(1 + drop(t(at) %*% inverse %*% at), diag(inverse)), 0) * residual / n)
  errors[errors == 0] <- NA
  estimates <- c(m[y] - sum(slopes * at), slopes)
  # No t values: errors without the noise may make some of tens where nothing is.
  table <- cbind(Estimate = estimates, "Std. Error" = errors)
  rownames(table) <- c("(Intercept)", x)
  list(coefficients = table, r.squared = if (S[y, y] > 0) explained / S[y, y] else NA)
}

y <- dpcov$$names[${target}]
# Left out, because the noise hides them: ${left_out}
# Left out, because other levels are compared with them: ${references}
x <- dpcov$$names[${predictors}]
cat("Private release:", dpcov$$title, "-", dpcov$$guarantee, "\n\n")
fit <- lm.from.moments(y, x)
cat("Regression of", y, "on", length(x), "features\n")
print(fit$$coefficients)
cat("These errors do not count ${uncounted}: they are too small.\n")
cat("R squared:", format(fit$$r.squared, digits = 4), "\n")
used <- c(x, y)
S <- dpcov$$covariance[used, used]
if (any(diag(S) <= 0)) cat("No spread shows of:", used[diag(S) <= 0], "\n")

# lavaan and psych want a matrix that can be inverted.
# Of more than 60 variables lavaan takes its time: name those of interest in x.
clear <- length(used) <= 60 && dpcov$$n.effective > length(used) + 1 && all(diag(S) > 0) &&
  min(eigen(cov2cor(S), symmetric = TRUE, only.values = TRUE)$$values) > 1e-8
has <- function(package) clear && requireNamespace(package, quietly = TRUE)

if (has("lavaan")) {
  cat("\nlavaan: the same regression\n")
  model <- paste(y, "~", paste(x, collapse = " + "))
  S.units <- cov2cor(S)
  sem <- lavaan::sem(model, sample.cov = S.units, sample.nobs = dpcov$$n.effective)
  cat("Standardized coefficients:\n")
  print(lavaan::coef(sem))
}
if (has("psych") && length(used) > 2) {
  cat("\npsych: one factor\n")
  print(psych::fa(cov2cor(S), nfactors = 1, n.obs = dpcov$$n.effective)$$loadings)
}
