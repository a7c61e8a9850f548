package gateway

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/config"
)

func TestCheckFindsRouteConflictsBesideOtherErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.yaml")
	writeFile(t, path, `listeners: [{address: "127.0.0.1:0"}]
routes:
  - {match: "/{a}/x", respond: {body: a}}
  - {match: "/y/{b}", respond: {body: b}, timeoot: 3s}
  - {respond: {body: c}}
  - {match: "/{", respond: {body: d}}
`)
	_, err := Check(path)
	wrong, ok := errors.AsType[config.Errors](err)
	if !ok {
		t.Fatalf("Check gave %v, want config.Errors", err)
	}
	var said []string
	for _, e := range wrong {
		said = append(said, e.Error())
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{":4:", "timeoot", "/y/x", ":5:", ":6:"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing is said of %q in\n%s", want, all)
		}
	}
	if strings.Count(all, "routes[3].match") != 1 {
		t.Errorf("one mistake is said more than once:\n%s", all)
	}
}
