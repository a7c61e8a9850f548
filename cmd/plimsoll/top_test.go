package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// adminAPI answers as a gateway without routes and traffic does.
func adminAPI(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/readyz":
			w.Write([]byte(`{"state": "serving"}`))
		case "/api/v1/loops":
			w.Write([]byte(`{"loops": [{"loop": 0, "busy": 0.5, "requests_per_second": 7}]}`))
		case "/api/v1/loadline":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Write([]byte(`{}`))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestTopPrintsOneLook(t *testing.T) {
	address := adminAPI(t)
	code, out, errs := command(nil, "top", "--once", "--admin", address, "--token", "s3cret")
	if code != 0 || errs != "" || !strings.Contains(out, "\n7/s · headroom: unknown (this gateway has no estimate)") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	t.Setenv("PLIMSOLL_ADMIN_TOKEN", "s3cret")
	code, out, errs = command(nil, "top", "--once", "--json", "--admin", address)
	var said struct {
		SchemaVersion int    `json:"schema_version"`
		Command       string `json:"command"`
		Gateway       struct {
			Rate float64 `json:"rate_per_second"`
		} `json:"gateway"`
		Routes []any `json:"routes"`
	}
	if err := json.Unmarshal([]byte(out), &said); code != 0 || errs != "" || err != nil ||
		said.SchemaVersion != 1 || said.Command != "top" || said.Gateway.Rate != 7 || said.Routes == nil {
		t.Errorf("exit %d, %+v, %v, %q", code, said, err, errs)
	}
}

func TestTopSaysThatATokenIsDemanded(t *testing.T) {
	code, out, errs := command(nil, "top", "--once", "--admin", adminAPI(t))
	if code != 2 || out != "" || !strings.Contains(errs, "demands a token: give admin.token") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	if strings.Count(errs, "\n") != 1 {
		t.Errorf("an error of several lines: %q", errs)
	}
}
