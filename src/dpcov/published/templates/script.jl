# Means and covariances of a private release, and a regression. Run: julia NAME.jl
# Standard errors below do not count ${uncounted}: they are too small.
# Python's dpcov.analysis has intervals that do.
# Coefficients come from covariances, as release.covariance() has them. Those of
# PrivateLinearRegression may differ: it reads the second moment, takes all levels of a category
# together, and leaves out directions that the noise hides.

using LinearAlgebra, Printf

title = ${title}
guarantee = ${guarantee}
fingerprint = ${fingerprint}
# What rows count as for sampling errors.
n = ${n_effective}
variables = ${names}
labels = ${labels}
means = ${means}
covariance = ${covariance}

# Least squares from moments.
function regress(y, x; S = covariance, m = means, rows = n)
    # Over an infinite scale, what has no variance gets no coefficient.
    scale = [v > 0 ? sqrt(v) : Inf for v in diag(S)[x]]
    # Directions without variance have no coefficient.
    inverse = pinv(S[x, x] ./ (scale * scale'); rtol = 1e-12) ./ (scale * scale')
    slopes = inverse * S[x, y]
    explained = dot(slopes, S[x, y])
    left = max(rows - length(x) - 1, 1)
    residual = max(S[y, y] - explained, 0) * rows / left
    at = m[x]
    errors = sqrt.(max.(vcat(1 + dot(at, inverse * at), diag(inverse)), 0) .* residual ./ rows)
    errors[errors .== 0] .= NaN
    return vcat(m[y] - dot(slopes, at), slopes), errors, S[y, y] > 0 ? explained / S[y, y] : NaN
end

y = ${target}
# Left out, because the noise hides them: ${left_out}
# Left out, because other levels are compared with them: ${references}
x = ${predictors}
estimates, errors, r2 = regress(y, x)
println("Private release: ", title, " - ", guarantee, "\n")
println("Regression of ", labels[y], " on ", length(x), " features")
@printf("%-26s %12s %12s\n", "", "estimate", "std. error")
for (name, estimate, std) in zip(vcat("(intercept)", labels[x]), estimates, errors)
    @printf("%-26s %12.5g %12.5g\n", name, estimate, std)
end
println("These errors do not count ${uncounted}: they are too small.")
@printf("R squared: %.4f\n", r2)
hidden = [labels[k] for k in vcat(x, y) if covariance[k, k] <= 0]
isempty(hidden) || println("No spread shows of: ", join(hidden, " "))

# Principal components of the correlations.
kept = findall(diag(covariance) .> 0)
deviations = sqrt.(diag(covariance)[kept])
correlation = Symmetric(covariance[kept, kept] ./ (deviations * deviations'))
isempty(kept) ||
    println("\nVariances of the components: ", round.(reverse(eigvals(correlation)); digits = 4))
