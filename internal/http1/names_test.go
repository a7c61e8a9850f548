package http1

import (
	"strings"
	"testing"

	"plimsoll/internal/head"
)

func TestNamesFieldsSaysWhetherTrailersHaveSomethingToLose(t *testing.T) {
	for value, want := range map[string]bool{
		"keep-alive": false, "close": false, "Keep-Alive, TE": false, "upgrade": false, "": false, ",,": false,
		"x-secret": true, "close, X-Secret": true, strings.Repeat("te,", maxOptions+1): true,
	} {
		var l head.List
		if l.Add([]byte("Connection"), []byte(value)); NamesFields(&l) != want {
			t.Errorf("Connection: %.40s: %v", value, !want)
		}
	}
	var l head.List
	if NamesFields(&l) {
		t.Error("a head without Connection names fields")
	}
	for range maxConnections + 1 {
		l.Add([]byte("Connection"), []byte("close"))
	}
	if !NamesFields(&l) {
		t.Error("more Connection fields than anybody needs name none")
	}
}
