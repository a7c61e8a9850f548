package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const sick = `package sick

import (
	"fmt"
	"io/ioutil"
	"strings"
)

func Vet(n int) { fmt.Printf("%s", n) }

func Pure() { strings.Repeat("a", 3) }

func Deprecated() { ioutil.ReadAll(nil) }

func unused() {}

func unusedButIgnored() {} //lint:ignore U1000 shows that it is obeyed

//lint:ignore SA1019 nothing here is deprecated
func Useless() {}

//lint:ignore SA4017
func NoReason() { strings.Repeat("a", 3) }

func usedByATest() {}

//lint:ignore U1000,SA4017 the first of two shows that it is obeyed
func alsoIgnored() {}

//lint:ignore U* shows that a pattern is obeyed
func ignoredByAPattern() {}

//lint:ignore U* nothing here is unused
func UselessPattern() {}
`

const itsTest = `package sick

import "testing"

func TestIt(*testing.T) { usedByATest() }
`

// What is known of log comes from another run of the tool, of which less is asked.
const logs = `package sick

import "log"

func Log(n int) { log.Printf("%s", n) }
`

// make lint gives this tool to go vet in the place of its own.
func TestOneToolHasTheChecksOfVetAndOfStaticcheck(t *testing.T) {
	dir, tool := t.TempDir(), filepath.Join(t.TempDir(), "analyze")
	if out, err := exec.Command("go", "build", "-o", tool, "./analyze").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range map[string]string{
		"go.mod": "module sick\n\ngo 1.26\n", "sick.go": sick, "sick_test.go": itsTest,
		"log.go": logs,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vet := exec.Command("go", "vet", "-vettool="+tool, ".")
	vet.Dir = dir
	out, err := vet.CombinedOutput()
	if err == nil {
		t.Error("defects were found, and go vet succeeds")
	}
	found := string(out)
	for _, want := range []string{
		"sick.go:9:31: fmt.Printf format %s has arg n of wrong type int",
		"log.go:5:31: log.Printf format %s has arg n of wrong type int",
		"sick.go:11:15: Repeat doesn't have side effects and its return value is ignored (SA4017: ",
		"sick.go:5:2: io/ioutil has been deprecated since Go 1.19",
		"go tool staticcheck -explain SA1019)",
		"sick.go:15:6: func unused is unused (U1000: ",
		"sick.go:19:1: nothing is ignored here: remove this directive",
		"sick.go:22:1: name the checks that are ignored here, and the reason",
		"sick.go:23:19: Repeat doesn't have side effects",
		"sick.go:33:1: nothing is ignored here: remove this directive",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("not found: %s", want)
		}
	}
	for _, not := range []string{"unusedButIgnored", "usedByATest", "sick.go:17:", "alsoIgnored", "sick.go:27:",
		"ignoredByAPattern", "sick.go:30:"} {
		if strings.Contains(found, not) {
			t.Errorf("%s is reported", not)
		}
	}
	if t.Failed() {
		t.Log(found)
	}
}
