//go:build linux && !amd64

package probe

var moreCalls map[int]call
