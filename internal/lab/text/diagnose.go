package text

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/format"
)

// DiagnosisInBrief is the bottleneck and the findings, in a line or two each. dir is the run's
// directory, for the command that shows more.
func DiagnosisInBrief(d *diagnose.Diagnosis, dir string) string {
	var b strings.Builder
	b.WriteString(bottleneck(&d.First))
	for i := range d.Findings {
		f := &d.Findings[i]
		b.WriteString(entry(fmt.Sprintf("finding %d", i+1),
			format.Clean(f.Rule)+", "+rankWords(f.Rank), f.Claim))
	}
	if len(d.Findings) > 0 {
		fmt.Fprintf(&b, "Why, where and what to do about it: %s\n",
			format.Clean(format.Command("plimsoll", "diagnose", dir)))
	}
	return b.String()
}

func bottleneck(l *diagnose.Limit) string {
	what := l.What
	if l.Share > 0 {
		what += ", " + format.Percent(l.Share) + " in use"
	}
	return entry("BOTTLENECK", wrap(what, indent), l.Why)
}

// Diagnosis describes what limits a service, the bottleneck first.
func Diagnosis(d *diagnose.Diagnosis) string {
	var b strings.Builder
	b.WriteString(bottleneck(&d.First) + spenders(d.First.Where))
	if len(d.Findings) == 0 {
		b.WriteString("\nNo finding: nothing that was checked shows a problem.\n")
	}
	for i := range d.Findings {
		b.WriteString("\n" + finding(i+1, &d.Findings[i]))
	}
	if len(d.Kernel) > 0 {
		b.WriteString("\nWhat the kernel counted for the service at the line:\n")
		for _, f := range d.Kernel {
			fmt.Fprintf(&b, "  %s\n", wrap(f.What+": "+f.Value, 4))
		}
	}
	if len(d.HeldBack) > 0 {
		b.WriteString("\nNot claimed, because there is counter-evidence:\n")
		for _, h := range d.HeldBack {
			fmt.Fprintf(&b, "  %s: %s\n", format.Clean(h.Rule), wrap(h.Why, 4))
		}
	}
	if len(d.NotJudged) > 0 {
		b.WriteString("\nNot judged, because it was not measured:\n")
		for _, n := range d.NotJudged {
			fmt.Fprintf(&b, "  %s: %s\n", format.Clean(n.Rule), wrap(n.Missing, 4))
		}
	}
	return b.String()
}

// spenders is the table of functions that use processor time.
func spenders(all []diagnose.Spender) string {
	if len(all) == 0 {
		return ""
	}
	table := Table{Left: []int{1, 2}}
	table.Row("  where it goes", "", "share", "a request", "at half of the line")
	for _, s := range all {
		half := "not known"
		if s.AtHalf > 0 {
			half = format.Duration(s.AtHalf * 1e9)
		}
		table.Row("  "+Clip(s.Function, 70), Clip(s.At(), 50),
			format.Percent(s.Share), format.Duration(s.PerRequest*1e9), half)
	}
	return "\n" + table.String()
}

// rankWords says what a finding means for the line.
func rankWords(r diagnose.Rank) string {
	switch r {
	case diagnose.Reach:
		return "hides the load line"
	case diagnose.Binding:
		return "sets the load line"
	case diagnose.Cost:
		return "raises the cost per request"
	}
	return "a risk"
}

// margin is the indentation of a finding's texts.
const margin = 5

func finding(number int, f *diagnose.Finding) string {
	var b strings.Builder
	pad := strings.Repeat(" ", margin)
	section := func(name string) { fmt.Fprintf(&b, "%s%s\n", pad, name) }
	item := func(text string) { fmt.Fprintf(&b, "%s  %s\n", pad, wrap(text, margin+2)) }
	fmt.Fprintf(&b, "%3d  %s: %s, confidence %s\n%s%s\n",
		number, format.Clean(f.Rule), rankWords(f.Rank), format.Confidence(f.Confidence), pad,
		wrap(f.Claim, margin))
	section("evidence")
	for _, e := range f.Evidence {
		text := e.What + ": " + e.Value
		if e.Threshold != "" {
			text += "  [a finding when " + e.Threshold + ": " + e.Reason + "]"
		}
		item(text)
	}
	if len(f.Against) > 0 {
		section("possible counter-evidence, which was not found")
		for _, a := range f.Against {
			item(a.What + ": " + a.Value)
		}
	}
	if len(f.Where) > 0 {
		section("where")
		places := Table{Left: []int{1, 2}}
		for _, p := range f.Where {
			places.Row(pad+Clip(p.Function, 70), Clip(p.At(), 50),
				format.Percent(p.Share)+" "+p.Of)
		}
		b.WriteString(places.String())
	}
	section("what to do")
	for _, a := range f.Advice {
		item(a.Text)
		command(&b, a.Command)
	}
	section("expected gain")
	item(gain(&f.Gain))
	section("how to verify it")
	item(f.Verify.Text)
	command(&b, f.Verify.Command)
	return b.String()
}

// command writes a command on its own line and never wraps it, so that it can be copied.
func command(b *strings.Builder, text string) {
	if text != "" {
		fmt.Fprintf(b, "%s      %s\n", strings.Repeat(" ", margin), format.Clean(text))
	}
}

func gain(g *diagnose.Gain) string {
	if g.Factor < 1.05 {
		return "the load line stays where it is; " + g.Why
	}
	return fmt.Sprintf("the load line at about %.2g times what it is (%.2g to %.2g); %s",
		g.Factor, g.Low, g.High, g.Why)
}

// Rules is the table of rules: what a diagnosis looks for.
func Rules(rules []diagnose.Rule) string {
	var b strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&b, "%s\n  %s\n", r.Name, wrap(r.Claim, 2))
		fmt.Fprintf(&b, "  when    %s\n", wrap(r.Threshold, 10))
		fmt.Fprintf(&b, "  because %s\n", wrap(r.Reason, 10))
		if len(r.Needs) > 0 {
			fmt.Fprintf(&b, "  needs   %s\n",
				wrap(strings.ReplaceAll(strings.Join(r.Needs, ", "), "|", " or "), 10))
		}
		for _, c := range r.Counters {
			fmt.Fprintf(&b, "  not if  %s\n", wrap(c.What, 10))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
