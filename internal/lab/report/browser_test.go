package report_test

import (
	"bytes"
	"flag"
	"fmt"
	escape "html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/report"
	"plimsoll/web"
)

// keep leaves the pages and their pictures where a person can look at them: go test
// ./internal/lab/report -keep some/folder
var keep = flag.String("keep", "", "a folder to leave pages and screenshots in")

// folder is where a test puts its files.
func folder(t *testing.T) string {
	if *keep == "" {
		return t.TempDir()
	}
	dir, err := filepath.Abs(*keep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// save writes a page and gives its path.
func save(t *testing.T, dir, name string, page []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, page, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// html is the report of a run.
func html(t *testing.T, run *record.Run) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := report.Write(&out, run, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// comparison is the report of two runs.
func comparison(t *testing.T, before, after *record.Run) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := report.Compare(&out, before, after); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sound fails when the page's script did not come to its end, or met an error, or the page's policy
// blocked something.
func sound(t *testing.T, dom string) {
	t.Helper()
	root, _, _ := strings.Cut(dom[strings.Index(dom, "<html"):], ">")
	if web.Report().Script == "" {
		if !strings.Contains(dom, "run <code>make web</code>") {
			t.Error("there is no front end, and the page does not say how to get it")
		}
		return
	}
	if strings.Contains(root, "data-errors") || !strings.Contains(root, `data-ready="yes"`) {
		t.Errorf("the page's script failed: <%s>", root)
	}
}

func TestTheReportInABrowser(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	page := save(t, dir, "report.html", html(t, plain().survey()))
	dom := look(t, page, view{width: 1280, height: 6000, picture: picture(dir, "light"),
		print: filepath.Join(dir, "report.pdf")})
	sound(t, dom)
	for _, chart := range []string{
		"latency", "goodput", "usl", "saturation", "timeline-rate", "timeline-latency",
		"percentiles",
	} {
		_, after, found := strings.Cut(dom, `data-chart="`+chart+`"`)
		if web.Report().Script != "" &&
			(!found || !strings.Contains(after[:min(len(after), 1200)], "<canvas")) {
			t.Errorf("no chart %s", chart)
		}
	}
	drawn(t, dir, "light")
	if pdf, err := os.ReadFile(filepath.Join(dir, "report.pdf")); err != nil ||
		!bytes.HasPrefix(pdf, []byte("%PDF-")) {
		t.Errorf("no print of the page: %v", err)
	}
}

func picture(dir, name string) string { return filepath.Join(dir, name+".png") }

// drawn fails when a picture is missing or blank.
func drawn(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if info, err := os.Stat(picture(dir, name)); err != nil || info.Size() < 20_000 {
			t.Errorf("no picture of the page, %s: %v", name, err)
		}
	}
}

func TestTheComparisonInABrowser(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	page := save(t, dir, "compare.html", comparison(t, plain().survey(), faster().survey()))
	dom := look(t, page, view{width: 1280, height: 3600, picture: picture(dir, "compare")})
	sound(t, dom)
	if n := strings.Count(dom, "<canvas"); web.Report().Script != "" && n != 3 {
		t.Errorf("%d charts, not 3", n)
	}
	drawn(t, dir, "compare")
}

// On a phone a page is 390 points wide, and must not have to be moved sideways. All are in frames of
// one page, which chooses dark colours. Phones are seen in the dark only.
func TestPagesInTheDarkAndOnAPhone(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	run, diagnosis := html(t, plain().survey()), diagnosed(t, sick())
	compared := comparison(t, plain().survey(), faster().survey())
	const phone, wide = 390, 1280
	frames := []struct {
		page   []byte
		width  int
		flames bool // all have charts
	}{
		{run, phone, false}, {compared, phone, false}, {diagnosis, phone, true}, {run, wide, false},
		{diagnosis, wide, true},
	}
	outer := `<!doctype html><style>body{margin:0;display:flex}iframe{border:0;height:8000px;flex:none}</style>`
	var want []string
	all := 0
	for _, f := range frames {
		outer += fmt.Sprintf(`<iframe style="width:%dpx" srcdoc="%s"></iframe>`, f.width,
			escape.EscapeString(string(f.page)))
		ready, built := "yes", web.Report().Script != ""
		if !built {
			ready = "undefined"
		}
		want = append(want, fmt.Sprintf("%d wide, errors undefined, ready %s, dark true, charts %t, flames %t",
			f.width, ready, built, built && f.flames))
		all += f.width
	}
	outer += `<script>onload=()=>{document.body.dataset.said=[...document.querySelectorAll("iframe")].map(f=>{` +
		`const w=f.contentWindow,d=w.document,e=d.documentElement,has=s=>d.querySelector(s)!==null;` +
		`return e.scrollWidth+" wide, errors "+e.dataset.errors+", ready "+e.dataset.ready+", dark "+` +
		`w.matchMedia("(prefers-color-scheme:dark)").matches+", charts "+has("canvas")+", flames "+has("[role=treeitem]")` +
		`}).join("; ")}</script>`
	dom := look(t, save(t, dir, "dark.html", []byte(outer)),
		view{width: all, height: 8000, dark: true, picture: picture(dir, "dark")})
	_, said, _ := strings.Cut(dom, `data-said="`)
	said, _, _ = strings.Cut(said, `"`)
	if want := strings.Join(want, "; "); said != want {
		t.Errorf("the frames are\n%s\nand not\n%s", said, want)
	}
	drawn(t, dir, "dark")
}

// TestOddRunsInABrowser shows them all in frames of one page.
func TestOddRunsInABrowser(t *testing.T) {
	t.Parallel()
	pages := map[string][]byte{"hostile": html(t, hostile())}
	pages["hostile comparison"] = comparison(t, hostile(), brief().survey())
	pages["hostile diagnosis"] = diagnosed(t, cruel())
	for name, run := range lacking() {
		pages[name] = html(t, run)
	}
	all := `<!doctype html><body><style>iframe{width:900px;height:3000px}</style>`
	for name, page := range pages {
		all += `<iframe title="` + name + `" srcdoc="` + escape.EscapeString(string(page)) +
			`"></iframe>`
	}
	all += `<script>onload=()=>{for(const f of document.querySelectorAll("iframe")){const d=f.contentDocument.documentElement.dataset;f.removeAttribute("srcdoc");` +
		`const p=document.createElement("p");p.textContent=f.title+": ready "+d.ready+", errors "+d.errors+", pwned "+d.pwned+".";document.body.append(p)}}</script>`
	dom := look(t, save(t, folder(t), "odd.html", []byte(all)), view{width: 1280, height: 900})
	ready := "yes"
	if web.Report().Script == "" {
		ready = "undefined"
	}
	for name := range pages {
		_, said, _ := strings.Cut(dom, "<p>"+name+": ")
		said, _, _ = strings.Cut(said, "</p>")
		if said != "ready "+ready+", errors undefined, pwned undefined." {
			t.Errorf("%s: %s", name, said)
		}
	}
}
