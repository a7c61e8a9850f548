package main

import (
	"bytes"
	"testing"
)

func TestProgressIsOneLineThatFitsTheTerminalAsItIsNow(t *testing.T) {
	var b bytes.Buffer
	columns := 20
	p := (&console{err: &b, columns: func() int { return columns }}).progress()
	p.show("1,000/s  p99 2.00 ms")
	columns = 10
	p.show("1,000/s\x1b[2J  p99")
	p.say("step 1: PASS")
	p.show("again")
	p.clear()
	p.clear()
	want := "\r1,000/s  p99 2.00 …\x1b[K" + "\r1,000/s·…\x1b[K" + "\r\x1b[Kstep 1: PASS\n" + "\ragain\x1b[K" + "\r\x1b[K"
	if b.String() != want {
		t.Errorf("written:\n%q\nwant\n%q", b.String(), want)
	}
}

func TestWithoutATerminalOnlyWhatIsSaidIsPrinted(t *testing.T) {
	var b bytes.Buffer
	p := (&console{err: &b}).progress()
	p.show("1,000/s")
	p.say("step 1: PASS")
	p.show("1,000/s")
	p.clear()
	if b.String() != "step 1: PASS\n" {
		t.Errorf("written: %q", b.String())
	}
}
