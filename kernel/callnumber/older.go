//go:build !amd64

package callnumber

// older is empty: the architecture's table begins with the calls in a directory.
var older map[int]uint8
