package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Nobody notices a defect that can no longer be planted, as scripts/planted.py takes too long to be
// run with every change. So a change of the lines that a patch changes needs the patch made again.
func TestPlantedDefectsFitTheCode(t *testing.T) {
	patches, err := filepath.Glob("testdata/planted/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatal("there are no patches: ", err)
	}
	for _, name := range patches {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if why := misfit(string(text)); why != "" {
			t.Errorf("%s: %s; make it again, so that it plants the same defect", name, why)
		}
	}
}

// misfit says why a patch does not apply to the code; "" when it does. A hunk may stand elsewhere
// than it says, as in patch and git apply, but all its lines must be there.
func misfit(patch string) string {
	files := strings.Split("\n"+patch, "\n--- a/")
	if len(files) < 2 {
		return "it changes no file"
	}
	for _, part := range files[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		code, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			return err.Error()
		}
		left := "\n" + string(code)
		for i, hunk := range strings.Split(rest, "\n@@ ")[1:] {
			_, body, _ := strings.Cut(hunk, "\n")
			var old strings.Builder
			changes, before, behind := false, 0, 0 // lines that stay, before and behind the changes
			for line := range strings.Lines(body) {
				switch {
				case line[0] == '-' || line[0] == '+':
					changes, behind = true, 0
				case changes:
					behind++
				default:
					before++
				}
				switch line[0] {
				case '-', ' ':
					old.WriteString(line[1:])
				case '\n':
					old.WriteString(line)
				}
			}
			_, after, found := strings.Cut(left, "\n"+old.String())
			switch {
			case !changes:
				return name + ": a hunk changes nothing"
			case !found:
				return fmt.Sprintf("%s: the code no longer has what hunk %d changes", name, i+1)
			case behind < before && after != "": // patch looks for such a one at the end only
				return fmt.Sprintf("%s: hunk %d needs %d lines behind its change", name, i+1, before)
			}
			left = "\n" + after
		}
	}
	return ""
}

func TestAPatchThatDoesNotFitIsFound(t *testing.T) {
	for what, patch := range map[string]string{
		"another line": "--- a/internal/sim/doc.go\n+++ b/internal/sim/doc.go\n" +
			"@@ -1,2 +1,1 @@\n // It must not know how the gateway does what it did: it sees configurations,\n-package sim\n",
		"no file":      "A defect.\n",
		"another file": "--- a/internal/sim/gone.go\n+++ b/internal/sim/gone.go\n@@ -1,1 +1,0 @@\n-package sim\n",
		"too few lines behind": "--- a/internal/sim/doc.go\n+++ b/internal/sim/doc.go\n" +
			"@@ -8,2 +8,1 @@\n //\n-// It must not know how the gateway does what it does: it sees configurations, bytes, metrics and\n",
		"no change": "--- a/internal/sim/doc.go\n+++ b/internal/sim/doc.go\n@@ -1,1 +1,1 @@\n package sim\n",
	} {
		if misfit(patch) == "" {
			t.Errorf("a patch of %s is said to fit", what)
		}
	}
	fits := "--- a/internal/sim/doc.go\n+++ b/internal/sim/doc.go\n@@ -1,1 +1,0 @@\n-package sim\n"
	if why := misfit(fits); why != "" {
		t.Errorf("a patch that fits does not: %s", why)
	}
}
