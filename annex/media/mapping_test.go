package media

import (
	"testing"

	"tare/kernel/advise"
)

// advised counts what it is asked for.
type advised struct {
	Target
	given  []advise.Advice
	mapped int
}

func (a *advised) Give(advice advise.Advice, _ []advise.Range) ([]advise.Passed, error) {
	a.given = append(a.given, advice)
	return nil, nil
}

func (a *advised) Map(all []advise.Range) (int, error) {
	a.mapped += len(all)
	return len(all), nil
}

// Where the kernel takes no MADV_WILLNEED pages come by being mapped, and leave as ever.
func TestBringingWithoutWillNeed(t *testing.T) {
	kernel := &advised{}
	m := mapping{kernel}
	for _, a := range []advise.Advice{advise.WillNeed, advise.PageOut} {
		if passed, err := m.Give(a, make([]advise.Range, 3)); len(passed) > 0 || err != nil {
			t.Errorf("%s: %v, %v", a, passed, err)
		}
	}
	if kernel.mapped != 3 || len(kernel.given) != 1 || kernel.given[0] != advise.PageOut {
		t.Errorf("%d are mapped, and given is %v", kernel.mapped, kernel.given)
	}
}
