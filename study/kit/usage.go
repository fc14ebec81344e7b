// Package kit is what all studies have in common.
package kit

import "fmt"

// Usage is an error in what the user asked for.
type Usage struct{ Text string }

func (u *Usage) Error() string { return u.Text }

// Usagef makes one.
func Usagef(format string, args ...any) error { return &Usage{fmt.Sprintf(format, args...)} }
