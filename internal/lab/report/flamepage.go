package report

import (
	"io"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/web"
)

// flamePage is what a page of flame graphs alone is filled with.
type flamePage struct {
	Title, Heading, Subject, When string
	Flames                        []FlameView
}

// WriteFlames writes flame graphs without a run as one HTML file: those of profiles that were taken
// elsewhere. subject names what they are of. It fails when w does.
func WriteFlames(w io.Writer, subject string, of []diagnose.Flame) error {
	v := flamePage{
		Heading: "Profile",
		Subject: clip(subject, 200),
		Flames:  flameViews(of),
	}
	v.Title = v.Heading + " of " + v.Subject
	return write(w, "profile", v, &Data{Flames: makeFlames(of)}, web.Report())
}
