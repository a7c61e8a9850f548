//go:build !race

package config_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/config"
	"plimsoll/internal/exchange"
)

func TestClassesDegradeAsTheyAreToldOrByTheirRank(t *testing.T) {
	text := "listeners: [{address: \":1\"}]\nclasses: {P1: {degrade: [static]}, P3: {degrade: []}, P4: {latency: 1s}}"
	cfg := parse(t, text)
	again, err := config.Parse("again", cfg.YAML(), "")
	if err != nil {
		t.Fatal(err)
	}
	const all = "cache stale static"
	for name, want := range map[string]string{"P0": "", "P1": "static", "P2": all, "P3": "", "P4": all, "P9": all} {
		for _, c := range []*config.Config{cfg, again} {
			if got := strings.Join(c.SLA(name).Degrade, " "); got != want {
				t.Errorf("%s degrades by %q, want %q", name, got, want)
			}
		}
	}
}

func TestP1MayGetWhatIsStored(t *testing.T) {
	sla := parse(t, "listeners: [{address: \":1\"}]").SLA("P1")
	if !sla.May(exchange.StepCache) || !sla.May(exchange.StepStale) || sla.May(exchange.StepStatic) {
		t.Errorf("P1 degrades by %q", sla.Degrade)
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
