package telemetry_test

import (
	"os/exec"
	"testing"
)

// The alerts that the project offers fire when they should, as Prometheus itself sees them.
func TestTheAlertsForSLOsPassTheirTests(t *testing.T) {
	for _, arguments := range [][]string{
		{"check", "rules", "slo.rules.yaml"}, {"test", "rules", "slo.test.yaml"},
	} {
		var said []byte
		var err error
		// On a machine that keeps it waiting, promtool looks at samples before it has stored them
		// all.
		for range 5 {
			check := exec.Command(promtool(t), arguments...)
			check.Dir = "../../examples/prometheus"
			if said, err = check.CombinedOutput(); err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments, err, said)
		}
	}
}
