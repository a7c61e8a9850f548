package profile

import (
	"cmp"
	"slices"

	"plimsoll/internal/lab/heap"
)

// Folded is the name of a node that stands for those children of its parent that are too light to
// be listed one by one.
const Folded = "…"

// mostNodes is the maximum number of nodes in a tree.
const mostNodes = 5000

// Node is a function in a tree of stacks merged from the root. Weights are per second of the
// profile's time if Profile.Rate says so, so that profiles of different lengths can be compared.
type Node struct {
	Name  string
	whose int8 // as in Frame
	// Weight includes the children's weight. In a difference, Before is the weight in the other
	// profile.
	Weight   float64
	Before   float64
	Children []*Node // the heaviest first, Folded last
	// Grain and GrainBefore are the weight of one sample, at the root only; 0 if that is not known.
	// A weight of n samples has an uncertainty of the square root of n samples, so they show which
	// differences are noise.
	Grain       float64
	GrainBefore float64
}

// Origin returns whose code the function is.
func (n *Node) Origin() Origin { return Frame{Function: n.Name, whose: n.whose}.Origin() }

// Scale multiplies the weights of a tree. With one over the requests per second of each profile,
// weights become weights per request.
func (n *Node) Scale(weight, before float64) {
	n.Weight *= weight
	n.Before *= before
	n.Grain *= weight
	n.GrainBefore *= before
	for _, c := range n.Children {
		c.Scale(weight, before)
	}
}

// Tree merges the stacks of a kind from the root, whose name is "all". It returns nil if nothing
// weighs anything. Nodes with less than a thousandth of the root are folded into one. If there
// would be more than 5,000 nodes, the children of the lightest nodes are folded, too.
func (p *Profile) Tree(kind string) *Node { return merge(kind, p, nil) }

// Difference is the tree of both profiles' stacks, with the weights in after and, as Node.Before,
// in before. A node is folded if it has less than a thousandth in both.
func Difference(before, after *Profile, kind string) *Node { return merge(kind, after, before) }

// trail is a stack on its way into a tree. Its frames are the profile's, the leaf first. names maps
// frames to names that both profiles share.
type trail struct {
	frames, names  []int32
	weight, before float64
}

func (t *trail) depth() int { return len(t.frames) }

// at returns the name at a distance from the root.
func (t *trail) at(depth int) int32 { return t.names[t.frames[len(t.frames)-1-depth]] }

func compare(a, b trail) int {
	for i := range min(a.depth(), b.depth()) {
		if c := cmp.Compare(a.at(i), b.at(i)); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.depth(), b.depth())
}

// forest builds a tree. Trails are sorted, so a node is a range of them, and its children are
// ranges of that range. No node is made that would be folded afterwards, which bounds the memory
// for any profile. The heaviest node is opened first.
type forest struct {
	names  []string
	whose  []int8 // by name
	ids    map[string]int32
	trails []trail
	root   *Node
	open   heap.Heap[closed]
	// the nodes in the tree, and one for each node in open, which may need a node to fold its
	// children into
	nodes  int
	opened int
}

// closed is a node whose children have not been looked at.
type closed struct {
	node   *Node
	trails []trail
	depth  int
	order  int
}

// Before puts the heaviest node first. order makes the result the same each time.
func (a closed) Before(b closed) bool {
	return cmp.Or(cmp.Compare(b.node.heaviest(), a.node.heaviest()),
		cmp.Compare(a.order, b.order)) < 0
}

func (n *Node) heaviest() float64 { return max(n.Weight, n.Before) }

func merge(kind string, after, before *Profile) *Node {
	f := forest{ids: map[string]int32{}, root: &Node{Name: "all", Grain: after.grain(kind)}}
	names := f.share(after)
	for _, s := range after.weighed(kind) {
		f.trails = append(f.trails, trail{s.frames, names, s.weight, 0})
	}
	if before != nil {
		f.root.GrainBefore = before.grain(kind)
		names = f.share(before)
		for _, s := range before.weighed(kind) {
			f.trails = append(f.trails, trail{s.frames, names, 0, s.weight})
		}
	}
	if len(f.trails) == 0 {
		return nil
	}
	slices.SortStableFunc(f.trails, compare)
	for _, p := range f.trails {
		f.root.Weight += p.weight
		f.root.Before += p.before
	}
	f.nodes = 1
	f.push(f.root, f.trails, 0)
	for f.open.Len() > 0 {
		f.expand(f.open.Pop())
	}
	return f.root
}

// share returns names for a profile's frames that both profiles use.
func (f *forest) share(p *Profile) []int32 {
	all := make([]int32, len(p.frames))
	for i, frame := range p.frames {
		id, ok := f.ids[frame.Function]
		if !ok {
			id = int32(len(f.names))
			f.ids[frame.Function] = id
			f.names = append(f.names, frame.Function)
			f.whose = append(f.whose, frame.whose)
		}
		all[i] = id
	}
	return all
}

func (f *forest) push(n *Node, trails []trail, depth int) {
	f.open.Push(closed{n, trails, depth, f.opened})
	f.opened++
	f.nodes++
}

// expand makes a node's children.
func (f *forest) expand(c closed) {
	f.nodes--
	rest := c.trails
	for len(rest) > 0 && rest[0].depth() == c.depth {
		rest = rest[1:] // these end here, and are the node's own weight
	}
	type child struct {
		node   *Node
		trails []trail
	}
	var children []child
	folded := &Node{Name: Folded}
	for len(rest) > 0 {
		name, n := rest[0].at(c.depth), 0
		node := &Node{Name: f.names[name], whose: f.whose[name]}
		for n < len(rest) && rest[n].at(c.depth) == name {
			node.Weight += rest[n].weight
			node.Before += rest[n].before
			n++
		}
		if node.Weight >= least*f.root.Weight && node.Weight > 0 ||
			node.Before >= least*f.root.Before && node.Before > 0 {
			children = append(children, child{node, rest[:n]})
		} else {
			folded.add(node)
		}
		rest = rest[n:]
	}
	if f.nodes+2*len(children)+1 > mostNodes {
		for _, one := range children {
			folded.add(one.node)
		}
		children = nil
	}
	slices.SortStableFunc(children, func(a, b child) int {
		return cmp.Or(cmp.Compare(b.node.heaviest(), a.node.heaviest()),
			cmp.Compare(a.node.Name, b.node.Name))
	})
	for _, one := range children {
		c.node.Children = append(c.node.Children, one.node)
		f.nodes++
		f.push(one.node, one.trails, c.depth+1)
	}
	if folded.heaviest() > 0 {
		c.node.Children = append(c.node.Children, folded)
		f.nodes++
	}
}

func (n *Node) add(other *Node) {
	n.Weight += other.Weight
	n.Before += other.Before
}
