package report

// page is the data of a frame.
type page struct {
	Title, Heading, Subject, When string
	Policy                        string
	Style, Script, JSON           string
	Body                          markup
}

// framed is a whole page. Style, script and JSON are inserted without escaping: the first two are
// the front end's, and JSON cannot end its element; see write.
func framed(p *page) markup {
	charts := p.Script != ""
	return fill(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>%s · plimsoll</title>
<style>%s</style>
</head>
<body>
<a class="skip" href="#main">Skip to the findings</a>
%s<header class="top">
<div class="brand"><svg class="logo" aria-hidden="true"><use href="#logo"/></svg>`+
		`<span>plimsoll</span></div>
<div class="about"><b>%s</b> <span class="subject">%s</span> <span class="when">%s</span></div>
<div class="tools" id="tools"></div>
</header>
<main id="main">
%s%s</main>
<footer>
<p>Made by plimsoll from raw results. Intervals say how sure a figure is; percentiles are of all `+
		`requests, those that failed counted as slowest.
This file holds everything it shows, and asks no server for anything.</p>
</footer>
<script type="application/json" id="data">%s</script>
%s
</body>
</html>
`, p.Policy, p.Title, markup(p.Style), symbols, p.Heading, p.Subject, p.When, banner(charts),
		p.Body, markup(p.JSON), where(charts, "<script>"+markup(p.Script)+"</script>"))
}

const symbols markup = `<svg class="defs" aria-hidden="true" width="0" height="0">
<symbol id="m-pass" viewBox="-8 -8 16 16"><circle r="5.5"/></symbol>
<symbol id="m-sofar" viewBox="-8 -8 16 16"><circle r="5.2"/></symbol>
<symbol id="m-fail" viewBox="-8 -8 16 16"><path d="M-5-5 5 5M5-5-5 5"/></symbol>
<symbol id="m-undecided" viewBox="-8 -8 16 16"><path d="M0-6.5 6.5 0 0 6.5-6.5 0z"/></symbol>
<symbol id="m-invalid" viewBox="-8 -8 16 16"><path d="M-5-5H5V5H-5z"/></symbol>
<symbol id="m-none" viewBox="-8 -8 16 16"><circle r="3.5"/></symbol>
<symbol id="m-a" viewBox="-8 -8 16 16"><circle r="5.5"/></symbol>
<symbol id="m-b" viewBox="-8 -8 16 16"><path d="M-5-5H5V5H-5z"/></symbol>
<symbol id="logo" viewBox="0 0 32 32"><circle cx="16" cy="16" r="9.5"/><path d="M2 16h28"/></symbol>
</svg>
`

func banner(charts bool) markup {
	if charts {
		return "<noscript><p class=\"banner\">The charts need JavaScript; the figures do not.</p>" +
			"</noscript>\n"
	}
	return "<p class=\"banner\">Charts are missing: this binary was built without the front end; " +
		"run <code>make web</code>, build again, and make the report again. " +
		"The figures are all here.</p>\n"
}

// mark draws the mark of a tone.
func mark(tone string) markup {
	return fill(`<svg class="mark %[1]s" aria-hidden="true"><use href="#m-%[1]s"/></svg>`, tone)
}

func legend() markup {
	return fill(`<span class="legend"><span>%sPASS</span> <span>%sOK SO FAR</span> `+
		`<span>%sFAIL</span> <span>%sUNDECIDED</span> <span>%sINVALID</span></span>`,
		mark("pass"), mark("sofar"), mark("fail"), mark("undecided"), mark("invalid"))
}

// bar draws an interval in front of another; either may be nil.
func bar(kind string, back, front *Band) markup {
	var drawn markup
	if back != nil {
		drawn += fill(`<rect class="back" x="%s" width="%s" y="0" height="100%%"/>`,
			back.From, back.Width)
	}
	if front != nil {
		drawn += fill(`<rect class="span" x="%s" width="%s" y="11" height="4" rx="2"/>`+
			`<circle cx="%s" cy="13" r="4.5"/>`, front.From, front.Width, front.At)
	}
	return fill(`<svg class="bar %s" aria-hidden="true" preserveAspectRatio="none">%s</svg>`,
		kind, drawn)
}

func headline(v *Headline) markup {
	return fill(`<section class="verdict %[1]s" aria-labelledby="verdict">
<p class="chip %[1]s">%[2]s%[3]s</p>
<h1 id="verdict"><span class="before">%[4]s</span>%[5]s%[6]s%[7]s</h1>
%[8]s%[9]s</section>
`, v.Tone, mark(v.Tone), v.Chip, v.Before, given(" <strong>%s</strong>", v.Big),
		given(` <span class="range">%s</span>`, v.Range), given(" %s", v.After),
		each(v.Details, func(s string) markup { return given("<p class=\"detail\">%s</p>\n", s) }),
		drawnStrip(v.Strip))
}

func drawnStrip(s *Strip) markup {
	if s == nil {
		return ""
	}
	var safe, line markup
	if b := s.Band; b != nil {
		safe = fill(`<rect class="safe" x="0" width="%s" y="20" height="6"/>`+
			`<rect class="band" x="%s" width="%s" y="6" height="34"/>`, b.At, b.From, b.Width)
		line = fill(`<line class="line" x1="%[1]s" x2="%[1]s" y1="2" y2="44"/>`, b.At)
	}
	return fill(`<figure class="strip"><svg role="img" aria-label="%[1]s">
%[2]s
<line class="axis" x1="0" x2="100%%" y1="23" y2="23"/>
%[3]s
%[4]s%[5]s</svg><figcaption>%[1]s %[6]s</figcaption></figure>
`, s.Sentence, safe, line,
		each(s.Marks, func(m StripMark) markup {
			return fill(`<svg x="%[1]s" y="23" class="%[2]s" overflow="visible">`+
				`<use href="#m-%[2]s" x="-7" y="-7" width="14" height="14"/>`+
				"<title>%[3]s</title></svg>\n", m.At, m.Tone, m.Title)
		}),
		each(s.Ticks, func(t Tick) markup {
			return fill("<text x=\"%s\" y=\"60\" text-anchor=\"%s\">%s</text>\n",
				t.At, t.Anchor, t.Text)
		}), legend())
}

func checks(all []Check) markup {
	return fill("<ul class=\"checks\">\n%s</ul>\n", each(all, func(c Check) markup {
		class, sign, says := "ok", "✓", "holds: "
		if !c.OK {
			class, sign, says = "broken", "✕", "does not hold: "
		}
		return fill(`<li class="%s"><b>%s<span class="sr">%s</span></b><div>%s%s</div></li>
`, class, sign, says, c.What, given("<small>%s</small>", c.Why))
	}))
}
