package telemetry_test

import (
	"os/exec"
	"testing"
)

func promtool(t *testing.T) string {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing: apt-get install -y prometheus (make test does it when it runs as root)")
	}
	return tool
}
