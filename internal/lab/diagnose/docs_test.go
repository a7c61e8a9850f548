package diagnose

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestTheTableOfRulesIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/diagnose.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Rules() {
		if row := fmt.Sprintf("| `%s` | %s, when %s |",
			r.Name, r.Claim, r.Threshold); !strings.Contains(string(page), row) {
			t.Errorf("docs/diagnose.md lacks the row\n%s", row)
		}
	}
}

func TestARuleIsWholeAndKnowsTheRulesItNames(t *testing.T) {
	all := Rules()
	index := func(name string) int {
		return slices.IndexFunc(all, func(r Rule) bool { return r.Name == name })
	}
	for i, r := range all {
		if index(r.Name) != i {
			t.Errorf("%s is there twice", r.Name)
		}
		if r.Claim == "" || r.Threshold == "" || r.Reason == "" || r.Judge == nil ||
			len(r.Counters)+len(r.Unless) == 0 {
			t.Errorf("%s lacks something: %+v", r.Name, r)
		}
		for _, other := range r.Unless {
			if at := index(other); at < 0 || at >= i {
				t.Errorf("%s is not claimed when %s is found, which comes after it "+
					"or is not a rule", r.Name, other)
			}
		}
	}
	for name := range knobsFor {
		if index(name) < 0 {
			t.Errorf("bounds are told of %s, which is not a rule", name)
		}
	}
}

func TestEveryPatientHasADiseaseOfTheTable(t *testing.T) {
	for patient, has := range diseases(t) {
		for _, name := range has.rules {
			if !slices.ContainsFunc(Rules(), func(r Rule) bool { return r.Name == name }) {
				t.Errorf("the patient %s has %q, which is not a rule", patient, name)
			}
		}
	}
}
