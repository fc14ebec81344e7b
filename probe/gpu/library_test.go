package gpu

import "testing"

// FuzzParseAnswer: what a program answers about the driver names each device once at most, or is refused.
func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"driver":12080,"devices":[{"ordinal":0,"name":"H100","uuid":"GPU-1","major":9,"minor":0,"memory":1}]}`))
	f.Add([]byte(`{"library":"libcuda.so.1 is missing"}`))
	f.Add([]byte(`{"init":100,"devices":null}`))
	f.Fuzz(func(t *testing.T, out []byte) {
		if _, err := parseAnswer(out); err != nil && err.Error() == "" {
			t.Errorf("%q is refused without a word", out)
		}
	})
}
