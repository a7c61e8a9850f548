package remote

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// What stands in for ssh does what a broken login does, and has started a program that holds its
// output open.
func TestALoginThatGoesWrongIsGivenUpAndLeavesNothing(t *testing.T) {
	toClose, toLogIn := closePatience, loginPatience
	t.Cleanup(func() { closePatience, loginPatience = toClose, toLogIn })
	closePatience = 100 * time.Millisecond // it would end nothing that these leave
	names := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
	machine := "echo " + saysMachine + " Linux " + names[runtime.GOARCH]
	for what, c := range map[string]struct {
		does, want string
		silent     bool // it takes all the time that it may
	}{
		"it says nothing":            {"", "its login has said nothing", true},
		"it prints without an end":   {"yes motd", "prints without an end", false},
		"its machine is another":     {"echo " + saysMachine + " Linux sparc64", "made for", false},
		"it says nothing any more":   {machine, "its login has said nothing", true},
		"it does not take a program": {machine + "; echo " + saysNeeds, "cannot be sent", true},
		"its generator says nothing": {machine + "; echo " + saysHas, "it has not greeted", true},
		"its generator makes no sense": {machine + "; echo " + saysHas + "; yes",
			"not the generator's protocol", false},
	} {
		if loginPatience = time.Minute; c.silent {
			loginPatience = 2 * time.Second
		}
		dir := t.TempDir()
		child := filepath.Join(dir, "child")
		script := fmt.Sprintf("#!/bin/sh\nsleep 1000 &\necho $! >%s\n%s\nwait\n", child, c.does)
		if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		work := &Work{URL: "http://127.0.0.1/", Request: &Request{Name: "GET /",
			Bytes: []byte("GET / HTTP/1.1\r\n\r\n")}}
		_, err := Open(t.Context(), Options{
			Generators: []string{"a@b"}, Work: work, Script: work.Script(),
		})
		if err == nil || !strings.Contains(err.Error(), "generator a@b: ") ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
		pid, err := os.ReadFile(child)
		if err != nil {
			t.Fatal(err)
		}
		for tick := time.NewTicker(time.Millisecond); runs(string(bytes.TrimSpace(pid))); {
			<-tick.C
		}
	}
}

// runs says whether there is a process that has not ended.
func runs(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !bytes.Contains(stat, []byte(") Z ")) && !bytes.Contains(stat, []byte(") X "))
}
