package census

import (
	"encoding/json"
	"testing"
)

func FuzzByKind(f *testing.F) {
	f.Add([]byte(`{"code":{"entries":3},"file data":{"entries":18446744073709551615}}`))
	f.Add([]byte(`{"code":{"entries":0},"heap":{}}`))
	f.Add([]byte(`{"none":{}}`))
	f.Add([]byte(`{"":{}}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`[1]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var b ByKind
		if err := json.Unmarshal(text, &b); err != nil {
			return
		}
		written, err := json.Marshal(b)
		if err != nil {
			t.Fatalf("%q is read as %+v, which cannot be written: %v", text, b, err)
		}
		var again ByKind
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%q is written, and cannot be read: %v", written, err)
		}
		for k := range b {
			// A kind without entries is not written.
			if b[k].Entries > 0 && again[k] != b[k] {
				t.Errorf("%s: %+v, and read again %+v", kindNames[k], b[k], again[k])
			}
		}
	})
}
