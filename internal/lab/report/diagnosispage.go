package report

import "plimsoll/internal/lab/diagnose"

func diagnosisSection(v *DiagnosisView) markup {
	if v == nil {
		return ""
	}
	parts := []markup{bottleneck(v)}
	if len(v.Spenders) > 0 {
		parts = append(parts, spenders(v.Spenders))
	}
	if len(v.Findings) > 0 {
		parts = append(parts, fill("<ol class=\"findings\">%s\n</ol>\n", each(v.Findings, finding)))
	} else {
		parts = append(parts, fill(`<p class="healthy"><span class="chip pass">%sNo finding</span></p>
<p>Nothing that was measured shows a problem. Every service has a bottleneck; that alone is not a `+
			`finding.</p>
`, mark("pass")))
	}
	if len(v.Kernel) > 0 {
		parts = append(parts, fill(`<details><summary>What the kernel counted for the service, `+
			`at the line</summary><ul class="plain">%s</ul></details>
`, each(v.Kernel, func(f diagnose.Fact) markup {
			return fill("<li>%s: <b>%s</b></li>", f.What, f.Value)
		})))
	}
	return section("diagnosis", "diagnosis", "Diagnosis", append(parts, unclaimed(v))...)
}

func bottleneck(v *DiagnosisView) markup {
	if v.First != "" {
		return fill("<p class=\"first\">Bottleneck: <b>%s</b>. %s</p>\n",
			v.First, given("<span>%s</span>", v.FirstWhy))
	}
	return given("<p class=\"first\">The bottleneck is not known. <span>%s</span></p>\n", v.FirstWhy)
}

func spenders(all []SpenderView) markup {
	return table("Where the processor time goes", "evidence spenders", []markup{
		col("Where the processor time goes"), col(""), num("Share"), num("A request"),
		num("At half of the line"),
	}, each(all, func(s SpenderView) markup {
		return fill(`<tr><th scope="row"><code>%s</code></th><td>%s</td><td class="n value">%s</td>`+
			`<td class="n">%s</td><td class="n">%s</td></tr>
`, s.Function, s.At, s.Share, s.PerRequest, s.AtHalf)
	}))
}

func finding(f FindingView) markup {
	verify := action(f.Verify)
	return fill(`
<li><article aria-labelledby="finding-%[1]s">
<p class="chip %[2]s">%[3]s%[4]s <span class="sure">%[5]s</span></p>
<h3 id="finding-%[1]s">%[6]s</h3>
%[7]s%[8]s%[9]s%[10]s%[11]s%[12]s<p class="rule">Rule <code>%[13]s</code></p>
</article></li>`, f.Number, f.Tone, mark(f.Tone), f.Says, f.Sure, f.Claim,
		evidence("Evidence", f.Evidence), evidence("Possible counter-evidence", f.Against),
		places(f.Places), advice(f.Advice), gain(&f),
		where(verify != "", "<h4>How to verify it</h4>"+verify), f.Rule)
}

func evidence(title string, facts []diagnose.Fact) markup {
	if len(facts) == 0 {
		return ""
	}
	return fill("<h4>%s</h4>%s", title, table("Evidence", "evidence", []markup{
		col("Figure"), num("Value"), num("Threshold"), col("Because"),
	}, each(facts, func(f diagnose.Fact) markup {
		return fill(`<tr><th scope="row">%s</th><td class="n value">%s</td>`+
			`<td class="n limit">%s</td><td class="how">%s</td></tr>
`, f.What, f.Value, f.Threshold, f.Reason)
	})))
}

func places(all []PlaceView) markup {
	if len(all) == 0 {
		return ""
	}
	return fill(`<h4>Where in the code</h4><ul class="places">%s</ul>
`, each(all, func(p PlaceView) markup {
		return fill("<li><code>%s</code>%s%s</li>",
			p.Function, given(" <span>%s</span>", p.At), given(" <b>%s</b>", p.Share))
	}))
}

func advice(all []diagnose.Action) markup {
	if len(all) == 0 {
		return ""
	}
	return fill(`<h4>What to do</h4><ul class="advice">%s</ul>
`, each(all, func(a diagnose.Action) markup { return fill("<li>%s</li>", action(a)) }))
}

func gain(f *FindingView) markup {
	if f.Expected == "" && f.Why == "" {
		return ""
	}
	return fill(`<h4>Expected gain</h4><p>%s%s</p>
`, f.Expected, given(` <span class="why">%s</span>`, f.Why))
}

func action(a diagnose.Action) markup {
	return given("<p>%s</p>", a.Text) +
		given(`<pre class="command"><code>%s</code></pre>`, a.Command)
}

// unclaimed shows the claims held back, and what could not be judged.
func unclaimed(v *DiagnosisView) markup {
	var held, missing markup
	if len(v.HeldBack) > 0 {
		held = fill(`<h4>Not claimed: there was counter-evidence</h4><ul class="plain">%s</ul>
`, each(v.HeldBack, func(h diagnose.HeldBack) markup {
			return fill(`<li>%s <span class="why">%s</span> <code>%s</code></li>`,
				h.Claim, h.Why, h.Rule)
		}))
	}
	if len(v.NotJudged) > 0 {
		missing = fill(`<h4>Not judged: something was not measured</h4><ul class="plain">%s</ul>
`, each(v.NotJudged, func(n diagnose.NotJudged) markup {
			return fill("<li><code>%s</code> %s</li>", n.Rule, n.Missing)
		}))
	}
	return where(held+missing != "",
		"<details><summary>What was not claimed, and what could not be judged</summary>\n"+
			held+missing+"</details>")
}
