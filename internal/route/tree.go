package route

// A forest holds the patterns of a table as compressed radix trees, one for each host. Its nodes
// are values in one slice, their texts lie in one slice of bytes, and neither holds a pointer: the
// trees of a hundred thousand routes cost the garbage collector nothing, and a step down the tree
// is a search for one byte among at most 256 that lie side by side.
//
// A node's text ends where a wildcard begins. What may follow it is tried in the order of
// precedence: a child whose text begins with the next byte, then wild, then multi. The steps that
// led to a node fix its place in the path, so that a search visits a node at most once, and the
// most that it can visit is known when the tree is built (steps).
type forest struct {
	nodes  []node
	firsts []byte // the first byte of each node's text
	text   []byte
}

// node is a node of a tree. Index 0 of nodes, and of leaves, stands for "none".
type node struct {
	text uint32 // where its text begins
	size uint16 // the bytes of its text
	kids uint16 // how many children it has by literal text
	// the node index of the first of them; the others follow it, in the order of their first bytes
	first uint32
	wild  uint32 // the node after {name}
	leaf  uint32 // the leaf of a pattern that ends here
	multi uint32 // the leaf of a pattern that ends here in {rest...} or a slash
}

func newForest() *forest {
	return &forest{nodes: make([]node, 1), firsts: make([]byte, 1)}
}

// plant builds a tree from keys, which are sorted and differ, and returns its root and the most
// nodes that a search in it visits. The pattern of keys[i] gets leaf i+leaf.
func (f *forest) plant(keys []string, leaf uint32) (root uint32, steps int) {
	root = f.reserve(1)
	return root, f.grow(root, keys, 0, leaf)
}

func (f *forest) reserve(n int) uint32 {
	at := len(f.nodes)
	f.nodes = append(f.nodes, make([]node, n)...)
	f.firsts = append(f.firsts, make([]byte, n)...)
	return uint32(at)
}

// grow makes node at of keys, which agree in their first depth bytes, and everything below it. It
// returns steps: of the children by text a search enters one at most, and it may come back from it
// to enter wild.
func (f *forest) grow(at uint32, keys []string, depth int, leaf uint32) (steps int) {
	text := commonText(keys[0][depth:], keys[len(keys)-1][depth:])
	n := node{text: uint32(len(f.text)), size: uint16(len(text))}
	f.text = append(f.text, text...)
	if text != "" {
		f.firsts[at] = text[0]
	}
	depth += len(text)
	if len(keys[0]) == depth {
		n.leaf = leaf
		keys, leaf = keys[1:], leaf+1
	}
	groups := split(keys, depth)
	kids := groups
	for _, g := range groups {
		switch g[0][depth] {
		case wildMark:
			n.wild = f.reserve(1)
			steps = f.grow(n.wild, g, depth+1, leaf)
		case multiMark:
			n.multi = leaf
		default:
			continue
		}
		leaf += uint32(len(g))
		kids = kids[1:]
	}
	n.kids = uint16(len(kids))
	n.first = f.reserve(len(kids))
	deepest := 0
	for i, g := range kids {
		deepest = max(deepest, f.grow(n.first+uint32(i), g, depth, leaf))
		leaf += uint32(len(g))
	}
	f.nodes[at] = n
	return 1 + steps + deepest
}

// commonText is what the first and the last of sorted keys, and so all of them, begin with, up to a
// wildcard.
func commonText(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] && a[i] > multiMark {
		i++
	}
	return a[:i]
}

// split divides sorted keys, all longer than depth, by their byte there.
func split(keys []string, depth int) (groups [][]string) {
	for len(keys) > 0 {
		n := 1
		for n < len(keys) && keys[n][depth] == keys[0][depth] {
			n++
		}
		groups = append(groups, keys[:n])
		keys = keys[n:]
	}
	return groups
}
