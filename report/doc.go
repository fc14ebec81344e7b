// Package report shows a run: as a screen for the terminal, as one HTML file
// that opens without a network, and as the comparison of two runs.
//
// What a study found is a [Sheet]: a sentence of answer, and tables, charts, bars, time
// lines, flame graphs and judgements, which [SheetTerminal] and [SheetHTML] show
// in the same manner. A sheet holds figures that are computed and words that
// are chosen; what is derived from them here is places.
//
// [WeighSheet] makes the sheet of programs that were weighed. It begins with [Answer] and
// shows every condition against the baseline, worst first, with value, overhead, interval
// and a verdict in a word. A figure stands with its interval; where there is
// none, the reason stands below the table.
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
