// Command letters writes letters to customers. The text is a template, with the parts that all letters
// share, and it is parsed once more for each letter. Only pprof is shown.
//
// Cured, it is parsed when the service starts.
package main

import (
	"bytes"
	"fmt"
	"html/template"
	"math/rand/v2"
	"net/http"
	"strings"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	customers = 60_000
	clauses   = 60
)

const frame = `{{define "head"}}<!doctype html><html lang="en"><head><title>{{.Subject}}</title></head>{{end}}
{{define "address"}}<address>{{.To.Name}}<br>{{.To.Street}}<br>{{.To.Town}}</address>{{end}}
{{define "money"}}{{printf "%.2f" .}} EUR{{end}}
{{define "letter"}}{{template "head" .}}<body>{{template "address" .}}
<h1>{{.Subject}}</h1><p>Good day, {{.To.Name}},</p>
<table>{{range .Lines}}<tr><td>{{.Text}}</td><td>{{template "money" .Euros}}</td></tr>{{end}}</table>
<p>Reference: <code>{{.Reference}}</code></p>
{{template "clauses" .}}</body></html>{{end}}
`

// terms are the parts that depend on the contract.
func terms() string {
	var b strings.Builder
	b.WriteString(`{{define "clauses"}}<ol>`)
	for i := range clauses {
		fmt.Fprintf(&b, `{{if eq .To.Contract %d}}<li class="c{{.To.Contract}}">Clause %d applies to `+
			`<a href="/terms?of={{.To.Name}}&amp;clause=%d">{{.To.Name}}</a> in {{.To.Town}}.</li>{{end}}`, i, i, i)
	}
	b.WriteString(`</ol>{{end}}`)
	return b.String()
}

// customer is somebody to write to.
type customer struct {
	Name, Street, Town string
	Contract           int
}

type line struct {
	Text  string
	Euros float64
}

// letter is what the template is filled with.
type letter struct {
	Subject, Reference string
	To                 *customer
	Lines              []line
}

// office writes letters. Any goroutine may use it.
type office struct {
	text      string
	customers []customer
	ready     *template.Template // nil is to parse the text for each letter
}

func (o *office) template() (*template.Template, error) {
	if o.ready != nil {
		return o.ready, nil
	}
	return template.New("letters").Parse(o.text)
}

func (o *office) write(l *letter) ([]byte, error) {
	t, err := o.template()
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = t.ExecuteTemplate(&page, "letter", l)
	return page.Bytes(), err
}

func (o *office) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	to := &o.customers[rand.IntN(len(o.customers))]
	l := &letter{Subject: "Your account", Reference: work.Do(3), To: to}
	for i := range 12 {
		l.Lines = append(l.Lines, line{fmt.Sprint("Mooring, week ", i+1), float64(90+i*7%13) + .5})
	}
	page, err := o.write(l)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(page)
}

func open(p *ward.Patient) (http.Handler, error) {
	o := &office{text: frame + terms()}
	for i := range customers {
		o.customers = append(o.customers, customer{
			Name:     fmt.Sprintf("Customer & Sons %d", i),
			Street:   fmt.Sprintf("Quay %d", i%211),
			Town:     fmt.Sprintf("Haven %d", i%97),
			Contract: i % clauses,
		})
	}
	if p.Cured {
		t, err := template.New("letters").Parse(o.text)
		if err != nil {
			return nil, err
		}
		o.ready = t
	}
	return o, nil
}

func main() { ward.Main(open) }
