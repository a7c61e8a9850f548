// Command sailings shows the page of a ferry line. Its tables and boxes are templates, each in a
// small file, and all of the files are opened, read and parsed for each page: so whoever works on
// them sees what he has changed, and nobody switched that off for production. Nothing is shown.
//
// Cured, they are read and parsed once, when the service starts.
package main

import (
	"bytes"
	"fmt"
	"html/template"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	boxes    = 50 // are on hand, each in a file
	onPage   = 8  // of them are on a page
	sailings = 12 // are in the table of a page
	layout   = "page.tmpl"
)

// page is the file that the others are parts of.
const page = `<!DOCTYPE html>
<title>Line {{.Line}}</title>
<table>{{range .Sailings}}
<tr><td>{{.At}}</td><td>{{.Ship}}</td></tr>{{end}}
</table>
`

// box is such a part; %[1]d is its number.
const box = `{{define "box-%[1]d"}}<div class="box" id="box-%[1]d">
<h2>Pier %[1]d</h2><p>Boats of line {{.Line}} leave from here.</p>
</div>{{end}}
`

// sailing is a row of the table.
type sailing struct{ At, Ship string }

// line is what a page is made of.
type line struct {
	Line     int
	Sailings []sailing
}

// site shows pages. Any goroutine may use it.
type site struct {
	folder string
	kept   *template.Template // nil where the files are read for each page
}

// write puts the templates into the folder, as a deployment would.
func (s *site) write() error {
	files := map[string]string{layout: page}
	var all strings.Builder
	for i := range boxes {
		files[fmt.Sprintf("box-%d.tmpl", i)] = fmt.Sprintf(box, i)
	}
	for i := range onPage {
		fmt.Fprintf(&all, "{{template \"box-%d\" .}}\n", i*7)
	}
	files[layout] += all.String()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// read is what is in the files.
func (s *site) read() (*template.Template, error) {
	return template.ParseGlob(filepath.Join(s.folder, "*.tmpl"))
}

// templates is what a page is made with.
func (s *site) templates() (*template.Template, error) {
	if s.kept != nil {
		return s.kept, nil
	}
	return s.read()
}

func (s *site) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	templates, err := s.templates()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	l := line{Line: rand.IntN(40), Sailings: make([]sailing, sailings)}
	for i := range l.Sailings {
		l.Sailings[i] = sailing{fmt.Sprintf("%02d:%02d", 6+i, (l.Line*7+i*13)%60),
			fmt.Sprint("Ferry ", (l.Line+i)%17)}
	}
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, layout, l); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("X-Seal", work.Do(2))
	w.Write(out.Bytes())
}

func open(p *ward.Patient) (http.Handler, error) {
	parent, err := os.MkdirTemp("", "sailings-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	p.OnEnd(func() { os.RemoveAll(parent) })
	s := &site{folder: filepath.Join(parent, "templates")}
	if err := os.Mkdir(s.folder, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	if err := s.write(); err != nil {
		return nil, fmt.Errorf("write the templates: %w", err)
	}
	if p.Cured {
		if s.kept, err = s.read(); err != nil {
			return nil, fmt.Errorf("read the templates: %w", err)
		}
	}
	return s, nil
}

func main() { ward.Main(open) }
