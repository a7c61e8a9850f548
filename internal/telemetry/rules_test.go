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
		check := exec.Command(promtool(t), arguments...)
		check.Dir = "../../examples/prometheus"
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments, err, out)
		}
	}
}

func promtool(t *testing.T) string {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing: apt-get install -y prometheus (make test does it when it runs as root)")
	}
	return tool
}
