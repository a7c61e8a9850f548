package stacks

import (
	"fmt"
	"strings"

	"github.com/google/pprof/profile"
)

// v8Node is a node of V8's call tree.
type v8Node struct {
	ID        int
	CallFrame struct {
		FunctionName string
		URL          string
		LineNumber   int // of the function, counted from 0
	}
	HitCount      int64
	Children      []int
	PositionTicks []struct {
		Line  int // counted from 1
		Ticks int64
	}
	// Parent is set in old profiles and in those of Chrome's traces, in place of Children.
	Parent int

	nanos   int64
	samples int64
	caller  *v8Node           // nil at the root of a stack
	place   *profile.Location // nil until it is first used
}

// root is V8's name for the root node, which is not a call.
const root = "(root)"

// v8Profile is the content of a .cpuprofile.
type v8Profile struct {
	nodes      map[int]*v8Node
	order      []*v8Node
	samples    []int
	deltas     []int64 // microseconds from the previous sample to each sample
	start, end float64 // microseconds
	stack      []*profile.Location
}

// readCPUProfile reads V8's .cpuprofile, which covers one thread. A sample lasts until the next
// one, as in the browser's own view. V8 reports the lines at which a function itself was running;
// for callers it reports the line where they begin.
func readCPUProfile(d *document, o Options) (*profile.Profile, error) {
	p := &v8Profile{nodes: map[int]*v8Node{}}
	if err := d.object(func(key string) error { return p.member(d, key) }); err != nil {
		return nil, d.at(err)
	}
	if err := p.link(); err != nil {
		return nil, err
	}
	if err := p.weigh(o); err != nil {
		return nil, err
	}
	seconds := o.Seconds
	if length := (p.end - p.start) / 1e6; seconds == 0 && length > 0 && length < 1e6 {
		seconds = length
	}
	b := NewBuilder(seconds)
	for _, n := range p.order {
		if err := p.add(b, n); err != nil {
			return nil, err
		}
	}
	return b.finish()
}

func (p *v8Profile) member(d *document, key string) error {
	switch key {
	case "startTime":
		return d.from.Decode(&p.start)
	case "endTime":
		return d.from.Decode(&p.end)
	case "nodes":
		return d.array(mostPlaces, "nodes", func() error {
			n := &v8Node{}
			if err := d.from.Decode(n); err != nil {
				return err
			}
			if p.nodes[n.ID] != nil {
				return fmt.Errorf("there are two nodes %d", n.ID)
			}
			p.nodes[n.ID], p.order = n, append(p.order, n)
			return nil
		})
	case "samples":
		return d.array(mostSamples, "samples", func() error {
			var id int
			err := d.from.Decode(&id)
			p.samples = append(p.samples, id)
			return err
		})
	case "timeDeltas":
		return d.array(mostSamples, "time deltas", func() error {
			var delta int64
			err := d.from.Decode(&delta)
			p.deltas = append(p.deltas, delta)
			return err
		})
	}
	return d.skip()
}

// link sets each node's parent.
func (p *v8Profile) link() error {
	for _, n := range p.order {
		for _, id := range n.Children {
			child := p.nodes[id]
			switch {
			case child == nil:
				return fmt.Errorf("node %d has a child %d, which is not there", n.ID, id)
			case child.Parent != 0 && child.Parent != n.ID:
				return fmt.Errorf("node %d has two parents", id)
			}
			child.Parent = n.ID
		}
	}
	for _, n := range p.order {
		if up := p.nodes[n.Parent]; up != nil && up.CallFrame.FunctionName != root {
			n.caller = up
		}
	}
	return nil
}

// weigh computes each node's time: from samples and time deltas or, since these are optional, from
// its hits.
func (p *v8Profile) weigh(o Options) error {
	if len(p.samples) == 0 {
		for _, n := range p.order {
			n.samples = min(max(n.HitCount, 0), mostCount)
			n.nanos = n.samples * o.nanos(1000)
		}
		return nil
	}
	if len(p.deltas) != len(p.samples) && len(p.deltas) > 0 {
		return fmt.Errorf("it has %d samples and %d time deltas", len(p.samples), len(p.deltas))
	}
	at := int64(0)
	for i, id := range p.samples {
		n := p.nodes[id]
		if n == nil {
			return fmt.Errorf("sample %d is of node %d, which is not there", i+1, id)
		}
		n.samples++
		if len(p.deltas) == 0 {
			n.nanos = sum(n.nanos, o.nanos(1000))
			continue
		}
		at += p.deltas[i]
		lasted := float64(0)
		if i+1 < len(p.deltas) {
			lasted = float64(p.deltas[i+1])
		} else if p.end > 0 {
			lasted = p.end - p.start - float64(at)
		}
		n.nanos = sum(n.nanos, bounded(lasted*1e3))
	}
	return nil
}

// add adds a node's stack, divided among the lines at which it was found.
func (p *v8Profile) add(b *Builder, n *v8Node) error {
	leaf := n.frame()
	if n.samples == 0 || leaf.Function == "(idle)" || leaf.Function == root {
		return nil
	}
	if err := p.stackOf(b, n); err != nil {
		return err
	}
	ticks := int64(0)
	for _, t := range n.PositionTicks {
		if t.Ticks < 0 || t.Ticks > mostCount || t.Line < 0 {
			return fmt.Errorf("node %d has %d ticks in line %d", n.ID, t.Ticks, t.Line)
		}
		ticks += t.Ticks
	}
	if ticks == 0 {
		return b.add(p.stack, n.samples, n.nanos)
	}
	samples, nanos := n.samples, n.nanos
	for i, t := range n.PositionTicks {
		share := float64(t.Ticks) / float64(ticks)
		some, time := int64(share*float64(n.samples)), int64(share*float64(n.nanos))
		if i == len(n.PositionTicks)-1 {
			some, time = samples, nanos // the remainder of rounding
		}
		samples, nanos = samples-some, nanos-time
		leaf.Line = t.Line
		var err error
		if p.stack[0], err = b.place(leaf); err != nil {
			return err
		}
		if err := b.add(p.stack, some, time); err != nil {
			return err
		}
	}
	return nil
}

// stackOf puts the places of a node and its callers into p.stack.
func (p *v8Profile) stackOf(b *Builder, n *v8Node) (err error) {
	p.stack = p.stack[:0]
	for at := n; at != nil; at = at.caller {
		if len(p.stack) > mostDepth {
			return fmt.Errorf("node %d is deeper than %d, or its parents are a circle",
				n.ID, mostDepth)
		}
		if at.place == nil {
			if at.place, err = b.place(at.frame()); err != nil {
				return err
			}
		}
		p.stack = append(p.stack, at.place)
	}
	return nil
}

// frame returns a node's call.
func (n *v8Node) frame() Frame {
	f := Frame{
		Function: n.CallFrame.FunctionName,
		File:     strings.TrimPrefix(n.CallFrame.URL, "file://"),
	}
	if f.Function == "" {
		f.Function = anonymous
	}
	if f.File != "" && n.CallFrame.LineNumber >= 0 && n.CallFrame.LineNumber < 1<<30 {
		f.Line = n.CallFrame.LineNumber + 1
	}
	return f
}
