// Package hint is a library in C, and what tests it: a program that opts in says with it,
// or has it found out under LD_PRELOAD, which memory its requests use and when one comes
// after sleep, and what of that is in swap is then read in bulk instead of fault by fault.
// annex_hint.h has its functions, README.md the variables of its environment.
package hint
