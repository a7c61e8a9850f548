package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"plimsoll/internal/lab/doctor"
)

func TestADoctorsReportIsATableWithTheAdviceBelow(t *testing.T) {
	r := &doctor.Report{
		Process: &doctor.Process{PID: 7, Name: "shop\x1b[2J", Go: "go1.26"},
		Findings: []doctor.Finding{
			{Name: "a", Value: "1", Verdict: doctor.Good, Why: "it is well"},
			{Name: "bb", Value: "2\x1b[2J", Verdict: doctor.Advise, Recommended: "3", Why: "it is small",
				Command: "sysctl -w bb=3"},
			{Name: "d", Value: "off", Verdict: doctor.Advise, Recommended: "on", Why: "it is slow",
				Command: "# nginx: d on\x1b[2J"},
			{Name: "e", Value: "old", Verdict: doctor.Advise, Recommended: "new", Why: "it is old"},
			{Name: "ccc", Verdict: doctor.Unreadable, Why: "it may not be read"},
		},
		Notes: []string{"a note"},
	}
	plain, coloured := checkUp(r, false), checkUp(r, true)
	for _, want := range []string{"process 7 (shop·[2J, built with go1.26)", "  a     good ",
		"  bb    advise ", "→ 3", "  ccc   cannot read ",
		"it may not be read",
		"  bb: 2·[2J, better 3\n    it is small\n    $ sysctl -w bb=3\n",
		"\n  d: off, better on\n    it is slow\n    nginx: d on·[2J\n",
		"\n  e: old, better new\n    it is old\n\nNote:", "Note: a note"} {
		if !strings.Contains(plain, want) {
			t.Errorf("there is no %q in:\n%s", want, plain)
		}
	}
	if strings.Contains(plain, "\x1b") {
		t.Errorf("it is coloured, or moves the cursor: %q", plain)
	}
	uncoloured := strings.NewReplacer(
		"\x1b[32m", "", "\x1b[33m", "", "\x1b[35m", "", "\x1b[0m", "").Replace(coloured)
	if strings.Count(coloured, "\x1b[") != 10 || uncoloured != plain {
		t.Errorf("%q", coloured)
	}
	if said := checkUp(&doctor.Report{}, false); !strings.Contains(said, "No advice.") {
		t.Error(said)
	}
}

func TestTheDoctorsExitCodes(t *testing.T) {
	var out, log bytes.Buffer
	c := &console{out: &out, err: &log}
	for want, k := range map[int]doctorCommand{exitStart: {PID: new(1 << 30)}, exitUsage: {URL: "shop"}} {
		if err := k.Run(t.Context(), c); exitOf(err) != want || out.Len() != 0 {
			t.Errorf("%+v: %v", k, err)
		}
	}
	for _, pid := range []int{-1, 0} {
		if err := (&doctorCommand{PID: &pid}).Run(t.Context(), c); exitOf(err) != exitUsage ||
			!strings.Contains(err.Error(), "--pid must be at least 1") {
			t.Errorf("--pid %d: %v", pid, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := (&doctorCommand{}).Run(ended, c); exitOf(err) != exitUnexpected {
		t.Error(err)
	}
	if err := (&doctorCommand{PID: new(os.Getpid()), JSON: true}).Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var printed struct {
		Command  string
		Process  struct{ PID int }
		Findings []doctor.Finding
	}
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil || printed.Command != "doctor" ||
		printed.Process.PID != os.Getpid() || len(printed.Findings) < 10 {
		t.Errorf("%v: %s", err, out.String())
	}
}
