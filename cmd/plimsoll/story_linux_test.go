package main

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"
)

// Ctrl-C on a terminal goes to all processes of a group, and the demo passes on its own: a part
// that shared the group would get two, and the second one ends a survey without a report.
func TestAPartOfTheDemoHearsOfCtrlCOnce(t *testing.T) {
	var out bytes.Buffer
	c := &console{out: &out, err: &out}
	if err := (&demoCommand{}).part(t.Context(), c, "/bin/sh", "-c",
		"read -r pid name state parent group rest </proc/$$/stat; echo $group"); err != nil {
		t.Fatal(err)
	}
	var group int
	if _, err := fmt.Sscan(out.String(), &group); err != nil || group == syscall.Getpgrp() {
		t.Errorf("the part is in group %q, and the demo in %d", out.String(), syscall.Getpgrp())
	}
}
