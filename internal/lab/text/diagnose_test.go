package text

import (
	"strings"
	"testing"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/profile"
)

func TestADiagnosisIsReadFromTheTop(t *testing.T) {
	got := Diagnosis(&diagnose.Diagnosis{
		First: diagnose.Limit{What: "connections to the database", Why: "4 of 4 were in use"},
		Findings: []diagnose.Finding{{
			Rule:       "database-pool-small",
			Claim:      "Requests wait for one of 4 connections",
			Rank:       diagnose.Binding,
			Confidence: .95,
			Evidence: []diagnose.Fact{
				{What: "share of their time", Value: "62 %", Threshold: "over a quarter", Reason: "it is much"},
				{What: "waits", Value: "412 a second"},
			},
			Against: []diagnose.Fact{{What: "the processors were busy", Value: "20 %"}},
			Where: []profile.Place{{
				Function: "main.(*Shop).cart",
				File:     "shop/cart.go",
				Line:     7,
				Share:    .5,
				Of:       "of the time waited",
			}},
			Advice: []diagnose.Action{{Text: "allow more", Command: "db.SetMaxOpenConns(20)"}},
			Gain:   diagnose.Gain{Factor: 3.2, Low: 2, High: 4.8, Why: "the processor is next"},
			Verify: diagnose.Action{Text: "survey again"},
		}},
		HeldBack:  []diagnose.HeldBack{{Rule: "lock-contention", Why: "the processors were busy"}},
		NotJudged: []diagnose.NotJudged{{Rule: "gc-heavy", Missing: "profile:cpu"}},
	})
	const want = `  BOTTLENECK    connections to the database
                4 of 4 were in use

  1  database-pool-small: sets the load line, confidence 95 %
     Requests wait for one of 4 connections
     evidence
       share of their time: 62 % [a finding when over a quarter: it is much]
       waits: 412 a second
     possible counter-evidence, which was not found
       the processors were busy: 20 %
     where
       main.(*Shop).cart   shop/cart.go:7   50.0 % of the time waited
     what to do
       allow more
           db.SetMaxOpenConns(20)
     expected gain
       the load line at about 3.2 times what it is (2 to 4.8); the processor is next
     how to verify it
       survey again

Not claimed, because there is counter-evidence:
  lock-contention: the processors were busy

Not judged, because it was not measured:
  gc-heavy: profile:cpu
`
	if got != want {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
}

func TestAHealthyServiceIsSaidToHaveNoFinding(t *testing.T) {
	got := Diagnosis(&diagnose.Diagnosis{
		First: diagnose.Limit{What: "the processor", Share: .93, Why: "1.86 of 2"},
	})
	if !strings.Contains(got, "No finding") ||
		!strings.Contains(got, "the processor, 93.0 % in use") {
		t.Error(got)
	}
}

func TestWhatAProfileSaysCannotMoveTheCursor(t *testing.T) {
	hostile := "main.x\x1b[2J\nrm"
	got := Diagnosis(&diagnose.Diagnosis{
		Findings: []diagnose.Finding{{
			Claim:    hostile,
			Where:    []profile.Place{{Function: hostile, File: hostile}},
			Advice:   []diagnose.Action{{Command: hostile}},
			Evidence: []diagnose.Fact{{Value: hostile}},
		}},
		HeldBack: []diagnose.HeldBack{{Why: hostile, Rule: hostile}},
	})
	if strings.ContainsAny(got, "\x1b") || strings.Contains(got, "\nrm") {
		t.Errorf("%q", got)
	}
}
