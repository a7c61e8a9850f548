package config_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/config"
)

func TestClassesDegradeAsTheyAreToldOrByTheirRank(t *testing.T) {
	text := "listeners: [{address: \":1\"}]\nclasses: {P1: {degrade: [static]}, P3: {degrade: []}, P4: {latency: 1s}}"
	cfg := parse(t, text)
	again, err := config.Parse("again", cfg.YAML(), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"P0": "", "P1": "static", "P2": "static", "P3": "", "P4": "static", "P9": "static"} {
		for _, c := range []*config.Config{cfg, again} {
			if got := strings.Join(c.SLA(name).Degrade, " "); got != want {
				t.Errorf("%s degrades by %q, want %q", name, got, want)
			}
		}
	}
}

func TestAListThatIsWrittenEmptyStaysEmpty(t *testing.T) {
	cfg := parse(t, "listeners: [{address: \":1\"}]\nupstreams: {a: {targets: [\"b:1\"], retry: {on: []}}}\nclasses: {P2: {}}")
	again, err := config.Parse("again", cfg.YAML(), "")
	if err != nil {
		t.Fatalf("%v\n%s", err, cfg.YAML())
	}
	if on := again.Upstreams["a"].Retry.On; len(on) != 0 {
		t.Errorf("retry.on became %v", on)
	}
	if !slices.Contains(strings.Split(string(cfg.YAML()), "\n"), "  P2: {}") {
		t.Errorf("a class without a key is not in\n%s", cfg.YAML())
	}
}
