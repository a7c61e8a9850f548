package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/profile"
)

// Bounds on the flame graphs in a page.
const (
	mostFlames = 6
	heaviest   = 20 // rows of the table that needs no front end
	flameParts = 1_000_000
)

// Flames is the data of the page's flame graphs in compact form: each name is written once, and a
// tree is a list of whole numbers.
type Flames struct {
	Names []string `json:"names,omitempty"`
	// Origins has one digit for each name, its profile.Origin: whose code it is.
	Origins string  `json:"origins"`
	Graphs  []Graph `json:"graphs,omitempty"`
}

// Graph is one flame graph. Its nodes are in pre-order, a parent before its children. Each node is
// the index of its name, the number of its children, its weight and, for a difference, its weight
// before. Weights are in Parts of the larger root.
type Graph struct {
	Title      string  `json:"title"`
	Unit       string  `json:"unit"`
	Difference bool    `json:"difference,omitempty"`
	Whole      float64 `json:"whole"` // weight of all Parts, in Unit
	Parts      int     `json:"parts"`
	// Grain: for a difference, the weight of one sample in Parts, now and before; 0 if unknown
	Grain *[2]float64 `json:"grain,omitempty"`
	Nodes []int       `json:"nodes,omitempty"`
}

// makeFlames returns nil if there are no flame graphs.
func makeFlames(of []diagnose.Flame) *Flames {
	out := &Flames{}
	ids := map[string]int{}
	for _, f := range shown(of) {
		factor, unit := readable(&f)
		g := Graph{
			Title:      clip(f.Title, 200),
			Unit:       unit,
			Difference: f.Difference,
			Whole:      round(whole(f.Root) * factor),
			Parts:      flameParts,
		}
		if f.Difference {
			g.Grain = &[2]float64{
				round(f.Root.Grain / whole(f.Root) * flameParts),
				round(f.Root.GrainBefore / whole(f.Root) * flameParts),
			}
		}
		out.add(&g, f.Root, whole(f.Root), ids)
		out.Graphs = append(out.Graphs, g)
	}
	if len(out.Graphs) == 0 {
		return nil
	}
	return out
}

// shown returns the flame graphs that are not empty.
func shown(of []diagnose.Flame) []diagnose.Flame {
	of = slices.DeleteFunc(slices.Clone(of), func(f diagnose.Flame) bool {
		return f.Root == nil || !(whole(f.Root) > 0) || math.IsInf(whole(f.Root), 1)
	})
	return of[:min(len(of), mostFlames)]
}

func whole(root *profile.Node) float64 { return max(root.Weight, root.Before) }

// readable returns a unit in which a flame graph's weights are not tiny fractions, and the factor
// for converting to it: a request takes few seconds.
func readable(f *diagnose.Flame) (factor float64, unit string) {
	unit = clip(f.Unit, 100)
	before, after, ok := strings.Cut(unit, "seconds")
	switch w := whole(f.Root); {
	case !ok || w >= .1:
		return 1, unit
	case w >= 1e-4:
		return 1e3, before + "milliseconds" + after
	}
	return 1e6, before + "microseconds" + after
}

func (f *Flames) add(g *Graph, n *profile.Node, whole float64, ids map[string]int) {
	name := clip(n.Name, 200)
	id, known := ids[name]
	if !known {
		id = len(f.Names)
		ids[name] = id
		f.Names = append(f.Names, name)
		f.Origins += string(rune('0' + n.Origin()))
	}
	parts := func(weight float64) int { return int(math.Round(weight / whole * flameParts)) }
	g.Nodes = append(g.Nodes, id, len(n.Children), parts(n.Weight))
	if g.Difference {
		g.Nodes = append(g.Nodes, parts(n.Before))
	}
	for _, c := range n.Children {
		f.add(g, c, whole, ids)
	}
}

// FlameView is a flame graph on the page: its place, and the same data as a table.
type FlameView struct {
	Number             int // index in Flames.Graphs
	Title, Label, Unit string
	Difference         bool
	All, AllBefore     string // the weight of the root
	Rows               []FlameRow
}

// FlameRow is one function of a flame graph.
type FlameRow struct {
	Function                   string
	Own, OwnBefore, OwnShare   string // itself
	With, WithBefore, OwnMoved string // with what it calls; the change of Own
}

func flameViews(of []diagnose.Flame) (all []FlameView) {
	for i, f := range shown(of) {
		title := clip(f.Title, 200)
		factor, unit := readable(&f)
		all = append(all, FlameView{
			Number:     i,
			Title:      title,
			Label:      "Flame graph: " + title,
			Unit:       unit,
			Difference: f.Difference,
			All:        number(f.Root.Weight * factor),
			AllBefore:  number(f.Root.Before * factor),
			Rows:       flameRows(&f, factor),
		})
	}
	return all
}

// weights are a function's weights in a tree: on its own and with what it calls, now and before.
type weights struct {
	name                  string
	own, with             float64
	ownBefore, withBefore float64
}

func flameRows(f *diagnose.Flame, factor float64) (rows []FlameRow) {
	sums := map[string]*weights{}
	for _, c := range f.Root.Children {
		gather(c, sums, map[string]bool{})
	}
	var all []*weights
	for _, w := range sums {
		all = append(all, w)
	}
	by := func(w *weights) float64 {
		if f.Difference {
			return math.Abs(w.own - w.ownBefore)
		}
		return w.own
	}
	slices.SortFunc(all, func(a, b *weights) int {
		return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(b.with, a.with),
			cmp.Compare(a.name, b.name))
	})
	for _, w := range all[:min(len(all), heaviest)] {
		// Sums of many fractions may leave a tiny remainder instead of 0.
		figure := func(v float64) string { return number(math.Round(v*factor*1e6) / 1e6) }
		row := FlameRow{
			Function:   clip(w.name, 200),
			Own:        figure(w.own),
			OwnBefore:  figure(w.ownBefore),
			With:       figure(w.with),
			WithBefore: figure(w.withBefore),
			OwnShare:   format.Percent(w.own / f.Root.Weight),
			OwnMoved:   figure(w.own - w.ownBefore),
		}
		if w.own > w.ownBefore {
			row.OwnMoved = "+" + row.OwnMoved
		}
		rows = append(rows, row)
	}
	return rows
}

// gather adds up a tree by function. For a function that calls itself, only the outermost call
// counts in with. above holds the functions that are being called.
func gather(n *profile.Node, sums map[string]*weights, above map[string]bool) {
	own, ownBefore := n.Weight, n.Before
	for _, c := range n.Children {
		own -= c.Weight
		ownBefore -= c.Before
	}
	first := !above[n.Name]
	if n.Name != profile.Folded {
		w := sums[n.Name]
		if w == nil {
			w = &weights{name: n.Name}
			sums[n.Name] = w
		}
		w.own += max(0, own)
		w.ownBefore += max(0, ownBefore)
		if first {
			w.with += n.Weight
			w.withBefore += n.Before
		}
	}
	above[n.Name] = true
	for _, c := range n.Children {
		gather(c, sums, above)
	}
	if first {
		delete(above, n.Name)
	}
}
