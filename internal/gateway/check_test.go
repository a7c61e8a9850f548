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

func TestCheckListsNoMoreErrorsThanAPersonReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.yaml")
	const routes = 2 * config.MaxErrors
	for name, first := range map[string]string{
		"conflicts alone":            "  - {match: /other, respond: {}}\n",
		"conflicts and other errors": "  - {match: /other, respond: {}, timeoot: 3s}\n",
	} {
		writeFile(t, path, "listeners: [{address: \"127.0.0.1:0\"}]\nroutes:\n"+first+
			strings.Repeat("  - {match: /, respond: {}}\n", routes))
		_, err := Check(path)
		wrong, _ := errors.AsType[config.Errors](err)
		if len(wrong) != config.MaxErrors+1 {
			t.Errorf("%s: %d errors are listed", name, len(wrong))
			continue
		}
		if last := wrong[config.MaxErrors].Error(); !strings.Contains(last, "more errors are not listed") {
			t.Errorf("%s: the last is %q", name, last)
		}
	}
}
