package report_test

import (
	escape "html"
	"strings"
	"testing"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/profile"
	"plimsoll/web"
)

// using opens a page in a frame, does what steps says to its document d, and gives what each step
// said. Steps are JavaScript: a call of say for each thing to look at.
func using(t *testing.T, name string, page []byte, steps string) map[string]string {
	t.Helper()
	outer := `<!doctype html><style>body{margin:0}iframe{border:0;width:1100px;height:4000px}</style><iframe srcdoc="` + escape.EscapeString(string(page)) +
		`"></iframe><script>onload=()=>{const w=document.querySelector("iframe").contentWindow,d=w.document;` +
		`const say=(k,v)=>{const p=document.createElement("p");p.textContent=k+": "+v;document.body.append(p)};` +
		`const key=k=>d.activeElement.dispatchEvent(new w.KeyboardEvent("keydown",{key:k,bubbles:true,cancelable:true}));` +
		`try{` + steps +
		`}catch(e){say("failed",e)}say("errors",d.documentElement.dataset.errors||"none");d.defaultView.frameElement.removeAttribute("srcdoc")}</script>`
	dom := look(t, save(t, folder(t), name+".html", []byte(outer)),
		view{width: 1200, height: 4200, picture: picture(folder(t), name)})
	said := map[string]string{}
	for _, p := range strings.Split(dom, "<p>")[1:] {
		p, _, _ = strings.Cut(p, "</p>")
		what, words, _ := strings.Cut(p, ": ")
		said[what] = escape.UnescapeString(words)
	}
	return said
}

func TestAFlameGraphIsUsedByMouseAndKeyboard(t *testing.T) {
	t.Parallel()
	if web.Report().Script == "" {
		sound(t, string(diagnosed(t, sick())))
		return
	}
	leaf := func(name string, weight, before float64, below ...*profile.Node) *profile.Node {
		return &profile.Node{Name: name, Weight: weight, Before: before, Children: below}
	}
	root := leaf("all",
		1, .5, leaf("main.a", .6, .3, leaf("main.json", .4, .1), leaf("main.log", .1, .2)),
		leaf("main.b", .4, .2, leaf("main.json", .2, .2)))
	noisy := leaf("all", 1, .5, leaf("main.few", .1, .05), leaf("main.many", .9, .45))
	noisy.Grain, noisy.GrainBefore = .01, .01
	d := healthy()
	d.Flames = []diagnose.Flame{
		{Title: "Line", Unit: "seconds", Root: root},
		{Title: "Moved", Unit: "seconds", Root: root, Difference: true},
		{Title: "Noisy", Unit: "seconds", Root: noisy, Difference: true},
	}
	got := using(t, "flames-used", diagnosed(t, d), `
		const plain=d.querySelector('[data-flame="0"]'), moved=d.querySelector('[data-flame="1"]');
		const frame=(f,n)=>[...f.querySelectorAll(".stage .frame")].find(e=>e.textContent===n);
		const names=f=>[...f.querySelectorAll(".stage .frame")].map(e=>e.textContent).sort().join(" ");
		const crumbs=f=>[...f.querySelectorAll(".crumbs > *")].map(e=>e.textContent).join(" > ");
		const search=(f,t)=>{const i=f.querySelector("input");i.value=t;i.dispatchEvent(new w.Event("input"));return f.querySelector("output").textContent};
		say("frames", names(plain));
		say("label", frame(plain,"main.a").getAttribute("aria-label"));
		say("text", search(plain,"JSON"));
		say("expression", search(plain,"^main\\.(log|b)$"));
		say("no expression", search(plain,"json("));
		say("none", search(plain,"")+plain.querySelectorAll(".hit,.miss").length);
		search(plain,"json"); say("hits", plain.querySelectorAll(".hit").length); 
		frame(plain,"main.a").click();
		say("zoomed", names(plain)+", "+crumbs(plain)+", "+frame(plain,"main.a").style.width+", "+plain.querySelector("output").textContent);
		key("ArrowDown"); say("down", d.activeElement.textContent);
		key("ArrowRight"); say("right", d.activeElement.textContent);
		key("Enter"); say("enter", crumbs(plain));
		key("Escape"); say("escape", crumbs(plain)+", "+d.activeElement.textContent);
		plain.querySelector(".crumbs button").click(); say("crumb", crumbs(plain)+", "+names(plain));
		say("colours", ["all","main.a","main.log","main.b"].map(n=>frame(moved,n).className).join(", "));
		say("noise", ["main.few","main.many"].map(n=>frame(d.querySelector('[data-flame="2"]'),n).className).join(", "));
		say("moved", frame(moved,"main.a").getAttribute("aria-label"));
		const width=()=>parseFloat(frame(moved,"main.log").style.width).toFixed(1);
		const after=width(); moved.querySelector(".flame-tools > button").click(); say("widths", after+" "+width());
		frame(plain,"main.b").dispatchEvent(new w.PointerEvent("pointermove",{bubbles:true,clientX:400,clientY:300}));
		say("note", plain.querySelector(".flame-tip").innerText.replace(/\s+/g," "));
	`)
	for what, want := range map[string]string{
		"errors":        "none",
		"failed":        "",
		"frames":        "all main.a main.b main.json main.json main.log",
		"label":         "main.a, seconds 0.6, of all 60 %, by itself 10 %",
		"text":          "60 % matched",
		"expression":    "50 % matched",
		"no expression": "nothing matches",
		"none":          "0",
		"hits":          "2",
		"zoomed":        "all main.a main.json main.log, all > main.a, 100%, 66.7 % matched",
		"down":          "main.json",
		"right":         "main.log",
		"enter":         "all > main.a > main.log",
		"escape":        "all > main.a, main.a",
		"crumb":         "all, all main.a main.b main.json main.json main.log",
		"colours":       "frame more3, frame more3, frame less3, frame more3",
		"noise":         "frame same, frame more3",
		"moved": "main.a, seconds 0.3 → 0.6, change +100 %, of all 60 % → 60 %, " +
			"by itself 0 → 0.1",
		"widths": "10.0 40.0",
		"note":   "main.b seconds 0.4 of all 40 % by itself 20 %",
	} {
		if got[what] != want {
			t.Errorf("%s: %q, not %q", what, got[what], want)
		}
	}
}

func TestTheDiagnosisInABrowser(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	page := save(t, dir, "diagnosed.html", diagnosed(t, sick()))
	dom := look(t, page, view{width: 1280, height: 8000, picture: picture(dir, "diagnosed-light")})
	sound(t, dom)
	if n := strings.Count(dom, `role="treeitem"`); web.Report().Script != "" && n < 200 {
		t.Errorf("%d frames in two flame graphs", n)
	}
	drawn(t, dir, "diagnosed-light")
}
