package tlsio

import "testing"

// EachMode runs f with buffers lent to crypto/tls, and as on a Go whose tls.Conn we do not know.
func EachMode(t *testing.T, f func(t *testing.T)) {
	if !inside.known {
		t.Fatal("the layout of this Go's tls.Conn is not known: see inside.go")
	}
	t.Run("lending", f)
	t.Run("plainly", func(t *testing.T) {
		inside.known = false
		defer func() { inside.known = true }()
		f(t)
	})
}
