//go:build !race

package main

import "testing"

// What is refused or only printed has one goroutine. A survey, a run that is reported and what is
// compared with wrk use the lab's rooms, whose own tests run under the race detector, as
// TestTheCommandLine does with load.
func TestTheCommandLineOfWhatRunsAlone(t *testing.T) { runScripts(t, "testdata/alone") }
