// Package web holds the front end that is built into the binary. What vite builds from src lies in
// dist and is not committed, so a binary that was built without npm has no charts; the style sheet
// is our own and is always there. This room knows nothing of what its pages show.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist src/report/theme.css
var files embed.FS

// Assets are the parts of a page that stands alone.
type Assets struct {
	Theme  string // the style sheet of every page
	Style  string // the charts' own; empty when Script is
	Script string // empty when the binary was built without the front end
}

// Report is the front end of the lab's reports.
func Report() Assets {
	return Assets{Theme: read("src/report/theme.css"), Style: read("dist/report.css"),
		Script: read("dist/report.js")}
}

// read is a file's text; a file that is not there is empty.
func read(name string) string {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return ""
	}
	return string(text)
}
