// Package report shows a run: as a screen for the terminal, as one HTML file
// that opens without a network, and as the comparison of two runs.
//
// Both begin with the same sentence of answer ([Answer]) and both show every
// condition against the baseline, worst first, with value, overhead, interval
// and a verdict in a word. A figure stands with its interval; where there is
// none, the reason stands in its place.
//
// Any other study says what it found as a [Sheet]: tables, charts, bars, time
// lines, flame graphs and judgements, which [SheetTerminal] and [SheetHTML] show
// in the same manner. A sheet holds figures that are computed and words that
// are chosen; what is derived from them here is places.
//
// Effects, intervals and verdicts come from package overhead; trials, settings
// in force and the host from package record. Two things are derived here: what
// a rung of a ladder adds to the one before it, by the estimator of package
// stats, and the curve of a merged histogram, which is read off and not
// estimated.
//
// All text that a run carries (labels, image names, what a kernel reported) is
// treated as hostile: control characters never reach a terminal, and nothing
// reaches a page unescaped.
package report
