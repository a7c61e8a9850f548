// Package profile reads pprof's profiles and says where in the code their weight is: by function, by caller, by stack, at one moment or as the
// difference between two. It must know nothing of runs, rules or pages, and trusts no byte: profiles come from a service over the network.
package profile

// Place is a place in a program's code.
type Place struct {
	Function string // as the profile has it: "main.(*Shop).cart"
	File     string // shortened to its last two parts
	Line     int    // 0 when it is not known
	// Share of the profile's weight that is there, 0 to 1, and what is meant by it, for a person: "of the processor time".
	Share float64
	Of    string
}

// Node is a function in a tree of stacks merged from the root. Weights are for a second of the profile's time, so that profiles of different
// lengths can be compared.
type Node struct {
	Name string `json:"n"`
	// Weight includes that of the children. Before is the weight in the other profile, for a difference.
	Weight   float64 `json:"w"`
	Before   float64 `json:"b,omitempty"`
	Children []*Node `json:"c,omitempty"`
}
