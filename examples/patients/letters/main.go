// Command letters writes letters to customers. The text is a template, with the parts that all
// letters share, and it is parsed once more for each letter. Only pprof is shown.
//
// Cured, it is parsed when the service starts.
package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"text/template"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	customers = 60_000
	clauses   = 120
)

const frame = `{{define "head"}}Subject: {{.Subject}}{{end}}
{{define "address"}}{{.To.Name}}
{{.To.Street}}
{{.To.Town}}{{end}}
{{define "money"}}{{printf "%.2f" .}} EUR{{end}}
{{define "letter"}}{{template "head" .}}
{{template "address" .}}

Good day, {{.To.Name}},
{{range .Lines}}
{{printf "%-24s" .Text}} {{template "money" .Euros}}{{end}}

Your reference is {{.Reference}}.
{{template "clauses" .}}{{end}}
`

// terms are the parts that depend on the contract.
func terms() string {
	var b strings.Builder
	b.WriteString(`{{define "clauses"}}`)
	for i := range clauses {
		fmt.Fprintf(&b, `{{if eq .To.Contract %d}}Clause %d of contract {{.To.Contract}} applies to {{.To.Name}}, `+
			`{{.To.Town}}: {{template "money" .Deposit}} are kept.{{end}}`, i, i)
	}
	b.WriteString(`{{end}}`)
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
	Deposit            float64
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
	l := &letter{Subject: "Your account", Reference: work.Do(3), To: to, Deposit: 250}
	for i := range 12 {
		l.Lines = append(l.Lines, line{fmt.Sprint("Mooring, week ", i+1), float64(90+i*7%13) + .5})
	}
	page, err := o.write(l)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
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
