package sim

import "testing"

func TestMoreRequestsUnderWayThanMayBeAreFound(t *testing.T) {
	a, b, c := &request{token: "a"}, &request{token: "b"}, &request{token: "c"}
	for _, one := range []struct {
		what  string
		stays []stay
		wrong bool
	}{
		{"one ends when another comes", []stay{{a, 1, 5, 2}, {b, 2, 4, 2}, {c, 4, 6, 2}}, false},
		{"three at once", []stay{{a, 1, 5, 2}, {b, 2, 5, 2}, {c, 4, 6, 2}}, true},
		{"the bound was raised before the last", []stay{{a, 1, 5, 1}, {b, 2, 5, 2}}, false},
		{"no bound", []stay{{a, 1, 5, 0}, {b, 2, 5, 0}}, false},
	} {
		w := &world{}
		if w.crowd("here", one.stays); (w.failure != nil) != one.wrong {
			t.Errorf("%s: %v", one.what, w.failure)
		}
	}
}
