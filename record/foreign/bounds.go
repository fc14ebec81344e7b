package foreign

import (
	"context"
	"io"
)

// observations are gathered within the bounds on what is read.
type observations struct {
	all    []observation
	levels int // of all of them
}

// add takes one more.
func (o *observations) add(one observation) error {
	switch {
	case len(o.all) == mostValues:
		return malformed(one.at, "more than %d values: import a part of them", mostValues)
	case o.levels+len(one.factors) > mostLevels:
		return malformed(one.at, "more than %d levels of factors in all values together: import a part of them, or fewer factors", mostLevels)
	}
	o.all = append(o.all, one)
	o.levels += len(one.factors)
	return nil
}

// append takes those of a file.
func (o *observations) append(file string, read []observation) error {
	if len(o.all)+len(read) > mostValues {
		return malformed(position{file: file}, "more than %d values in all: import a part of them", mostValues)
	}
	for i := range read {
		o.levels += len(read[i].factors)
	}
	if o.levels > mostLevels {
		return malformed(position{file: file}, "more than %d levels of factors in all values together: import a part of them, or fewer factors", mostLevels)
	}
	o.all = append(o.all, read...)
	return nil
}

// fewFactors refuses a value of more factors than one may have, before anything is made
// of them: no experiment has as many.
func fewFactors(at position, n int) error {
	if n > mostFactors {
		return malformed(at, "%d factors of one value, more than %d: leave columns or keys out", n, mostFactors)
	}
	return nil
}

// interruptible is a reader that ends with its context: what reads by parts, of a file
// or of its bytes, ends at the next of them.
type interruptible struct {
	ctx context.Context
	io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// stopped gives the cause of a context that ended, at every few thousandth of a count.
func stopped(ctx context.Context, i int) error {
	const every = 4096
	if i%every != 0 {
		return nil
	}
	return context.Cause(ctx)
}
