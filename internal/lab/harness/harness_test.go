package harness

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/slo"
	"plimsoll/internal/lab/survey"
)

func TestATargetThatDoesNotAnswerLeavesNoRunDirectory(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	target, err := load.Resolve(t.Context(), "http://"+l.Addr().String(), load.TLSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request, err := load.Prepare(target, "GET", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	objectives, err := slo.Parse("p99<50ms")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	result, err := Run(t.Context(), Options{
		Survey:  survey.Options{SLO: objectives},
		Dir:     dir,
		Target:  target,
		Script:  load.Static("GET /", request, false),
		Timeout: time.Second,
	})
	if result != nil || err == nil {
		t.Errorf("result %v, error %v", result, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the run directory is there: %v", err)
	}
}
