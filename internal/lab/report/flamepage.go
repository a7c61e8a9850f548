package report

import (
	"io"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/web"
)

// WriteFlames writes flame graphs without a run as one HTML file, for profiles taken elsewhere.
// subject names their origin. It fails if w does.
func WriteFlames(w io.Writer, subject string, of []diagnose.Flame) error {
	front := web.Report()
	p := page{
		Heading: "Profile",
		Subject: clip(subject, 200),
		Body:    flamesSection(flameViews(of), front.Script != ""),
	}
	p.Title = p.Heading + " of " + p.Subject
	return write(w, &p, &Data{Flames: makeFlames(of)}, front)
}

func flamesSection(all []FlameView, charts bool) markup {
	return section("flames", "flames", "Flame graphs",
		lead("Where in the code the processor time goes, by the stacks that were running. A bar "+
			"is a function, as wide as its share; below it are the functions it calls."),
		each(all, func(v FlameView) markup { return flame(&v, charts) }))
}

func flame(v *FlameView, charts bool) markup {
	which, before, after := "are the heaviest", markup(""), markup("")
	if v.Difference {
		which, before, after = "moved the most", fill("%s before and ", v.AllBefore), " after"
	}
	return fill(`<article aria-labelledby="flame-%[1]s"><h3 id="flame-%[1]s">%[2]s</h3>
%[3]s<details%[4]s><summary>The functions that %[5]s by themselves, as a table</summary>
<p class="under">In %[6]s; all of it is %[7]s%[8]s%[9]s.</p>
%[10]s</details></article>
`, v.Number, v.Title, where(charts, fill(`<figure class="flame" data-flame="%s" data-label="%s">`+
		"</figure>\n", v.Number, v.Label)), where(!charts, " open"), which, v.Unit,
		before, v.All, after, functions(v))
}

func functions(v *FlameView) markup {
	label := v.Label + ", as a table"
	if v.Difference {
		return table(label, "functions", []markup{
			col("Function"), num("Itself, before"), num("after"), num("change"),
			num("With what it calls, before"), num("after"),
		}, each(v.Rows, func(r FlameRow) markup {
			return fill(`<tr><th scope="row"><code>%s</code></th><td class="n">%s</td>`+
				`<td class="n">%s</td><td class="n">%s</td><td class="n">%s</td>`+
				`<td class="n">%s</td></tr>
`, r.Function, r.OwnBefore, r.Own, r.OwnMoved, r.WithBefore, r.With)
		}))
	}
	return table(label, "functions", []markup{
		col("Function"), num("Itself"), num("share"), num("With what it calls"),
	}, each(v.Rows, func(r FlameRow) markup {
		return fill(`<tr><th scope="row"><code>%s</code></th><td class="n">%s</td>`+
			`<td class="n">%s</td><td class="n">%s</td></tr>
`, r.Function, r.Own, r.OwnShare, r.With)
	}))
}
