package faults

import (
	"bytes"
	"fmt"
	"testing"
)

func FuzzThreadFaults(f *testing.F) {
	f.Add([]byte("7 (a ) b) S 1 7 7 0 -1 4194560 123 45 6 7 8\n"))
	f.Add([]byte("7 (x) S 1 2 3 4 5 6 18446744073709551615 0 18446744073709551616"))
	f.Add([]byte(")"))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		faults, err := parseThreadFaults(b)
		if err != nil {
			return
		}
		// The same figures, as the kernel writes them, whatever the command's name is.
		again := fmt.Appendf(nil, "1 (any) thing) S 1 1 1 0 0 0 %d 0 %d 0", faults.minor, faults.major)
		if got, err := parseThreadFaults(again); got != faults || err != nil {
			t.Errorf("%q: %+v, and written anew %+v, %v", b, faults, got, err)
		}
	})
}

func FuzzPhysicalBits(f *testing.F) {
	f.Add([]byte("processor\t: 0\naddress sizes\t: 48 bits physical, 48 bits virtual\n"))
	f.Add([]byte("address sizes : 64 bits physical"))
	f.Add([]byte("address sizes"))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		bits, err := parsePhysicalBits(bytes.NewReader(b))
		if (err == nil) != (bits >= 32 && bits <= 52) {
			t.Errorf("%q: %d bits, %v", b, bits, err)
		}
	})
}
