package report

// compareBody is the page of a comparison.
func compareBody(v *twoView, charts bool) markup {
	body := headline(&v.Verdict) + fill(`<section class="tiles two" aria-label="The two runs">
%s</section>
`, each(v.Sides, func(s Side) markup {
		return fill(`<div class="tile"><h2>%sRun %s · %s</h2><p class="value small">%s</p>`+
			`<p class="note">%s</p>%s</div>
`, mark(s.Mark), s.Name, s.When, s.Line, s.Target,
			given(`<p class="note"><code>%s</code></p>`, s.Command))
	}))
	body += section("", "figures", "What changed, and is it real?",
		lead("Each figure of both runs. The bar is the interval of the change from A to B; the "+
			"shade around no change is the noise floor."),
		differenceTable(v), fill(`<p class="under">%s</p>`, v.Rule))
	body += section("", "settings", "What was not the same", changeTable(v.Changed))
	body += where(charts, compareCharts())
	trust := []markup{each(v.Sides, func(s Side) markup {
		if len(s.Checks) == 0 {
			return ""
		}
		return fill("<h3>%sRun %s</h3>%s", mark(s.Mark), s.Name, checks(s.Checks))
	})}
	if charts {
		trust = append(trust, download(v.File, "validity", "Download both runs' JSON"))
	}
	return body + section("", "validity", "Can these figures be trusted?", trust...)
}

func differenceTable(v *twoView) markup {
	return table("Figures of both runs", "estimates", []markup{
		col("Figure"), num("A"), num("B"), num("Change"),
		scaleHead("−"+v.Reach, "+"+v.Reach, "<span>0</span>"), col("Real?"),
	}, each(v.Figures, func(d DifferenceRow) markup {
		return fill(`<tr class="%s"><th scope="row">%s</th><td class="n a">%s</td>`+
			`<td class="n b">%s</td><td class="n change">%s</td><td class="graph">%s</td>`+
			`<td class="says">%s</td></tr>
`, d.Tone, d.Figure, d.A, d.B, d.Change, bar(d.Kind, d.Zero, d.Bar), d.Says)
	}))
}

func changeTable(all []Change) markup {
	if len(all) == 0 {
		return lead("Both runs had the same target, SLO, mix, machine and settings.")
	}
	orNone := func(s string) string {
		if s == "" {
			return "–"
		}
		return s
	}
	return table("Settings that differ", "", []markup{col("Setting"), col("A"), col("B")},
		each(all, func(c Change) markup {
			return fill(`<tr><th scope="row">%s</th><td class="how">%s</td>`+
				`<td class="how">%s</td></tr>`, c.What, orNone(c.A), orNone(c.B))
		}))
}

func compareCharts() markup {
	return section("", "latency", "Latency against rate",
		lead("A dashed, B in full; each with the band of its load line."),
		plot("plot", "compare-latency", "Line chart: p99 of both runs, logarithmic, against the "+
			"offered rate. The table of figures has the values at rates that both held.")) +
		section("", "goodput", "Goodput",
			plot("plot", "compare-goodput",
				"Line chart: goodput of both runs against the offered rate.")) +
		section("", "percentiles", "Latency by percentile",
			lead("At the highest rate that both runs passed."),
			plot("plot", "compare-percentiles",
				"Percentile plot of both runs at the highest rate that both held."))
}
