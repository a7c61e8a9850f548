package report

// runBody is the page of a run.
func runBody(v *view, charts bool) markup {
	body := headline(&v.Verdict)
	if len(v.Tiles) > 0 {
		body += fill(`<section class="tiles" aria-label="Headline figures">
%s</section>
`, each(v.Tiles, func(t Tile) markup {
			return fill(`<div class="tile"><h2>%s</h2><p class="value">%s%s</p>`+
				"<p class=\"note\">%s</p></div>\n",
				t.Label, t.Value, given(" <small>%s</small>", t.Unit), t.Note)
		}))
	}
	body += diagnosisSection(v.Diagnosis)
	if len(v.Notes) > 0 {
		body += fill(`<section class="banner" aria-label="What is incomplete">%s</section>
`, each(v.Notes, func(s string) markup { return fill("<p>%s</p>", s) }))
	}
	body += where(charts && v.Rates, rateCharts(v)) + estimatesSection(v.Estimates, charts)
	body += where(charts && v.Rates && v.Saturated, saturationChart()) +
		where(charts, courseCharts())
	if len(v.Flames) > 0 {
		body += flamesSection(v.Flames, charts)
	}
	if len(v.Validity) > 0 || len(v.NotMeasured) > 0 {
		body += section("", "validity", "Can these figures be trusted?", checks(v.Validity),
			where(len(v.NotMeasured) > 0,
				"<h3>What was not measured</h3>"+items(v.NotMeasured)))
	}
	return body + repeatSection(v) + rawSection(v, charts)
}

func rateCharts(v *view) markup {
	says := "Response time from each request's intended start, at every rate that was held. "
	if v.Survey {
		says += "The shaded band is the load line's interval: right of it the SLO is violated."
	}
	return section("", "latency", "Latency against rate", lead(says),
		plot("plot", "latency", "Line chart: percentiles of the response time, logarithmic, "+
			"against the offered rate of each step. The table of raw numbers has the values."),
		fill(`<p class="under">%s</p>`, legend())) +
		section("", "goodput", "Throughput and goodput",
			lead("Requests answered, and requests answered successfully, against requests "+
				"offered. On the diagonal everything offered is served."),
			plot("plot", "goodput", "Line chart: throughput and goodput against the offered "+
				"rate, with the diagonal. The table of raw numbers has the values."))
}

func estimatesSection(e *Estimates, charts bool) markup {
	if e == nil {
		return ""
	}
	heads := []markup{
		col("Estimate"), num("Requests a second"), scaleHead(e.From, e.To), num("Error"),
		col("How it was computed"),
	}
	rows := each(e.Rows, func(r EstimateRow) markup {
		return fill(`<tr class="%s"><th scope="row">%s</th><td class="n">%s</td>`+
			`<td class="graph">%s</td><td class="n error">%s</td><td class="how">%s</td></tr>
`, r.Kind, r.What, r.Value, bar(r.Kind, e.Measured, r.Bar), r.Error, r.How)
	})
	return section("", "model", "Prediction against measurement",
		lead("What each model predicted from the gentle steps alone, and the rate at which each "+
			"measured resource is saturated, compared with the line that was then found."),
		table("Estimates of the load line", "estimates", heads, rows),
		where(charts, plot("plot low", "usl", "Scatter chart: throughput against requests in "+
			"the target at each step, with the fitted scalability law. The text below gives "+
			"its parameters.")),
		given(`<p class="under">%s</p>`, e.USL),
		each(e.Notes, func(s string) markup { return fill(`<p class="under">%s</p>`, s) }))
}

// scaleHead is the header of a column of bars.
func scaleHead(from, to string, between ...markup) markup {
	return fill(`<th scope="col" class="graph"><span class="ends"><span>%s</span>%s`+
		`<span>%s</span></span></th>`,
		from, each(between, func(m markup) markup { return m }), to)
}

func saturationChart() markup {
	return section("", "saturation", "Saturation",
		lead("Share of all processors in use at each rate. What reaches the top first is the "+
			"bottleneck."),
		plot("plot low", "saturation", "Line chart: processor use of the target, its host and "+
			"the generator against the offered rate. The table of raw numbers has the values."))
}

func courseCharts() markup {
	return section("", "timeline", "The whole run",
		lead("Every step in the order it was run; the waits between steps are left out. Above: "+
			"the offered rate, and the rate of successful requests. Below: percentiles of each "+
			"window."),
		plot("plot low", "timeline-rate", "Line chart over time: the offered rate and the rate "+
			"of successful requests, with a mark and the verdict for each step."),
		plot("plot low", "timeline-latency", "Line chart over time: median and 99th percentile "+
			"of the response time of each window, logarithmic.")) +
		section("", "percentiles", "Latency by percentile",
			lead("How slow the slowest were, step by step: one more division to the right is "+
				"ten times rarer. A curve that ends in ✕ ends where the failed requests begin."),
			`<div class="choose" data-choose="percentiles" role="group" `+
				`aria-label="Steps to show"></div>`,
			plot("plot", "percentiles", "Percentile plot: response time, logarithmic, against 1 "+
				"over 1 minus the percentile, for the chosen steps."))
}

func repeatSection(v *view) markup {
	return section("", "repeat", "How to repeat it",
		given(`<pre class="command" id="command"><code>%s</code></pre>`, v.Command),
		fill(`<dl class="facts">%s</dl>`, each(v.Facts, func(f Fact) markup {
			return fill("<div><dt>%s</dt><dd>%s</dd></div>", f.Name, f.Value)
		})))
}

func rawSection(v *view, charts bool) markup {
	parts := []markup{
		lead("Percentiles are of all requests after the settling; “failed” means that the " +
			"percentile lies among requests that failed."),
		stepTable(v.Steps),
		fill(`<details><summary>Why each step was made, and the reason for its verdict</summary>`+
			`<ol class="grounds">
%s</ol></details>
`, each(v.Steps, ground)),
	}
	if len(v.Kinds) > 0 {
		parts = append(parts, "<h3>By kind of request</h3>", kindTable(v.Kinds))
	}
	if len(v.Failures) > 0 {
		parts = append(parts, "<h3>Requests that failed</h3>", failureTable(v.Failures))
	}
	if charts {
		parts = append(parts, download(v.File, "raw", "Download this run's JSON"))
	}
	return section("raw", "raw", "Raw numbers", parts...)
}

func download(file, from, says string) markup {
	return fill(`<p class="under"><a class="download" id="download" data-file="%s" `+
		`href="#h-%s">%s</a></p>`, file, from, says)
}

func stepTable(steps []StepRow) markup {
	heads := []markup{num("step"), col("phase"), col("verdict")}
	for _, name := range stepColumns {
		heads = append(heads, num(name))
	}
	return table("Raw numbers of each step", "sortable", heads,
		each(steps, func(s StepRow) markup {
			return fill(`<tr><th scope="row" class="n" data-sort="%[1]s">%[1]s</th>`+
				`<td>%[2]s</td><td class="verdict-cell %[3]s"><span title="%[4]s">%[5]s%[6]s`+
				"</span></td>%[7]s</tr>\n",
				s.Number, s.Phase, s.Tone, s.Because, mark(s.Tone), s.Verdict,
				each(s.Cells, func(c Cell) markup {
					return fill(`<td class="n" data-sort="%s">%s</td>`, c.Sort, c.Text)
				}))
		}))
}

// ground shows why a step was made, and the reason for its verdict.
func ground(s StepRow) markup {
	return fill(`<li value="%s">%s%s<b class="%s">%s</b>%s</li>
`, s.Number, s.Why, where(s.Why != "" && s.Because != "", " — "), s.Tone, s.Verdict,
		given(": %s", s.Because))
}

func kindTable(kinds []KindRow) markup {
	return table("By kind of request", "sortable", []markup{
		col("request"), num("requests"), num("share"), num("failed"), num("p50"), num("p99"),
	}, each(kinds, func(k KindRow) markup {
		return fill(`<tr><th scope="row">%s</th><td class="n">%s</td><td class="n">%s</td>`+
			`<td class="n">%s</td><td class="n">%s</td><td class="n">%s</td></tr>`,
			k.Name, k.Count, k.Share, k.Failed, k.P50, k.P99)
	}))
}

func failureTable(failures []FailureRow) markup {
	return table("Requests that failed", "", []markup{
		num("step"), num("offered/s"), col("how"), num("requests"), col("the first one"),
	}, each(failures, func(f FailureRow) markup {
		return fill(`<tr><td class="n">%s</td><td class="n">%s</td><td>%s</td>`+
			`<td class="n">%s</td><td class="how">%s</td></tr>`,
			f.Step, f.Rate, f.Kind, f.Count, f.Example)
	}))
}
