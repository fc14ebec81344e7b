package stats

// Method is a way to an interval.
type Method string

// The methods. docs/statistics.md gives the source of each and the coverage
// that simulation finds for it.
const (
	// MethodDefault leaves the choice to the estimator. It may go by the number of
	// blocks, never by their values: a choice that looks at the data spoils the
	// level that it claims.
	MethodDefault Method = ""
	// MethodT is Student's t on the mean.
	MethodT Method = "t"
	// MethodWeightedT is Student's t on a weighted mean, with a variance that does not rest on
	// the weights ([RoundMean]).
	MethodWeightedT Method = "weighted t"
	// MethodBootstrapT resamples the t statistic instead of reading it from a table.
	MethodBootstrapT Method = "bootstrap-t"
	// MethodBCa is the bias-corrected and accelerated bootstrap percentile.
	MethodBCa Method = "BCa"
	// MethodHodgesLehmann is the median of the pairwise means, with the interval
	// that inverts Wilcoxon's signed-rank test. Its target is the pseudomedian,
	// which is the mean only where the distribution is symmetric.
	MethodHodgesLehmann Method = "Hodges-Lehmann"
	// MethodBlockBootstrap reads the interval of a quantile from the percentiles
	// of its values over resampled blocks.
	MethodBlockBootstrap Method = "block bootstrap"
	// MethodJackknifeT is Student's t on the pseudo-values that leaving out one
	// block at a time gives.
	MethodJackknifeT Method = "jackknife-t"
	// MethodFieller is Fieller's interval for a ratio of two means.
	MethodFieller Method = "Fieller"
	// MethodBatchMeans is Student's t on the means of successive spans of a series, the
	// correlation of each with the next allowed for.
	MethodBatchMeans Method = "batch means"
	// MethodBatchShares is the same for the share of values below a quantile, read back
	// as values.
	MethodBatchShares Method = "batch shares"
)

// resamples is how many bootstrap samples an interval rests on. With one less
// than a round number the wanted order statistics fall on whole ranks.
const resamples = 1999

// fewest is the least number of values for which an interval is given.
const fewest = 3

// shown is the least number of values for which coverage has been simulated.
const shown = 5

// logDefault is the default for means on the log scale, at every number of values.
// BCa was meant to take over for many; the simulation (docs/statistics.md) finds
// that for normal and lognormal noise it comes close to t but never up to it,
// and that it falls well behind where trials have outliers.
const logDefault = MethodT
