package stacks_test

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll/internal/lab/stacks"
)

// entered is a thread that waited for the lock of an object, in the form of the JDK's jfr tool.
func entered(duration, function string) string {
	return fmt.Sprintf(`{"type": "jdk.JavaMonitorEnter", "values": {"startTime":
		"2026-11-23T18:53:29.386181415Z", "duration": %q, "monitorClass": {"name": "shop/Cache"},
		"stackTrace": {"truncated": false, "frames": [{"method": {"type": {"name": "shop/Cache"},
		"name": %q}, "lineNumber": 7}]}}}`, duration, function)
}

func TestWaitsForLocksAreReadFromAFlightRecording(t *testing.T) {
	recording := func(events ...string) []byte {
		return []byte(`{"recording": {"events": [` + strings.Join(events, ",") + `]}}`)
	}
	p, err := stacks.ReadWaits(recording(entered("PT0.012S", "rate"), entered("PT1M0.5S", "rate"),
		entered("soon", "other"), strings.Replace(entered("PT5S", "x"), "MonitorEnter", "MonitorWait", 1)), 2)
	if err != nil {
		t.Fatal(err)
	}
	times, waited := int64(0), int64(0)
	for _, s := range p.Sample {
		if s.Location[0].Line[0].Function.Name == "shop.Cache.rate" {
			times, waited = times+s.Value[0], waited+s.Value[1]
		}
	}
	if p.SampleType[1].Type != "delay" || times != 2 || waited != 60_512_000_000 || p.DurationNanos != 2e9 {
		t.Errorf("%v: %d times, %d ns in %d", p.SampleType, times, waited, p.DurationNanos)
	}
	if p, err := stacks.ReadWaits(recording(), 2); p != nil || err != nil {
		t.Errorf("without an event: %v, %v", p, err)
	}
	for name, text := range map[string]string{
		"cut":     `{"recording": {"events": [` + entered("PT1S", "x")[:80],
		"no JSON": "jfr print: could not read the recording",
		"too deep": string(recording(strings.Replace(entered("PT1S", "x"), `"frames": [`,
			`"frames": [`+strings.Repeat(`{},`, 100_000), 1))),
	} {
		if p, err := stacks.ReadWaits([]byte(text), 2); err == nil {
			t.Errorf("%s: %v", name, p)
		}
	}
}
