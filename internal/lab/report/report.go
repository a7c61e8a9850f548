// Package report turns a run into one self-contained HTML file: it needs no server, no other file
// and no network. The package makes the text and the tables, which can be read without the front
// end. The front end, in package web, adds the charts. A report is a pure function of a run. This
// package must not measure, judge, or know a clock. It trusts no text of a run, because a hostile
// target may have written it.
package report

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/record"
	"plimsoll/web"
)

// Write writes the report of a run as one HTML file. If diagnosis is nil, the diagnosis and the
// flame graphs are left out. It fails if the run or the diagnosis contains values that JSON cannot
// express, or if w fails.
func Write(w io.Writer, run *record.Run, diagnosis *diagnose.Diagnosis) error {
	return writeRun(w, run, diagnosis, web.Report())
}

func writeRun(w io.Writer, run *record.Run, diagnosis *diagnose.Diagnosis, front web.Assets) error {
	d := MakeData(run)
	if diagnosis != nil {
		d.Diagnosis, d.Flames = boundedDiagnosis(diagnosis), makeFlames(diagnosis.Flames)
	}
	v := makeView(run, d)
	if diagnosis != nil {
		v.Flames = flameViews(diagnosis.Flames)
	}
	return write(w, &page{
		Title:   v.Title,
		Heading: v.Heading,
		Subject: v.Subject,
		When:    v.When,
		Body:    runBody(v, front.Script != ""),
	}, d, front)
}

// write completes a page and writes it. If the front end is absent, the page says so and has no
// script.
func write(w io.Writer, p *page, data any, front web.Assets) error {
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("the report's data cannot be written as JSON: %w", err)
	}
	// The policy names everything inlined by its hash, so that no other script or style runs,
	// whatever a run's texts contain. json.Marshal escapes <, >, &, U+2028 and U+2029, so the data
	// cannot end its element.
	p.Style, p.Script, p.JSON = front.Theme+front.Style, front.Script, string(text)
	p.Policy = "default-src 'none'; base-uri 'none'; form-action 'none'; " +
		"img-src data:; style-src " + hashOf(p.Style) + "; script-src " + scripts(p.Script)
	if _, err := io.WriteString(w, string(framed(p))); err != nil {
		return fmt.Errorf("the report cannot be written: %w", err)
	}
	return nil
}

func scripts(script string) string {
	if script == "" {
		return "'none'"
	}
	return hashOf(script)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
