package kernel

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// TestTheModelDoesWhatTheKernelDoes plays every script over the model and over the machine's own
// kernel, for both families of sockets. What calls return and what pollers tell must be the same.
func TestTheModelDoesWhatTheKernelDoes(t *testing.T) {
	for _, family := range []string{"tcp", "unix"} {
		for _, s := range pairScripts {
			for _, role := range []string{"connected", "accepted"} {
				compare(t, family, script{s.name + ", " + role, role + "\n" + s.steps})
			}
		}
		for _, s := range ownScripts {
			compare(t, family, s)
		}
	}
	for _, s := range tcpScripts {
		compare(t, "tcp", s)
	}
}

func compare(t *testing.T, family string, s script) {
	t.Run(family+"/"+s.name, func(t *testing.T) {
		t.Parallel()
		var model []string
		synctest.Test(t, func(t *testing.T) {
			model = (&run{world: newModelled(t, family)}).play(s.steps, nil)
		})
		machine := (&run{world: newMachine(t, family)}).play(s.steps, model)
		if !slices.Equal(model, machine) {
			t.Errorf("the model differs from the kernel\n%s", beside(model, machine))
		}
	})
}

// beside shows two logs, and where they differ.
func beside(model, machine []string) string {
	var b strings.Builder
	for i, line := range machine {
		if model[i] == line {
			b.WriteString("         " + line + "\n")
			continue
		}
		b.WriteString("  model: " + model[i] + "\n kernel: " + line + "\n")
	}
	return b.String()
}
