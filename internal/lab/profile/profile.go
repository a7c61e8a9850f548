// Package profile reads pprof profiles and finds where in the code their weight is: by function, by
// caller and by stack, in one profile or in the difference between two. It must know nothing of
// runs, rules or pages, and trusts no byte: profiles come from a service over the network.
package profile

import "strconv"

// Place is a place in a program's code.
type Place struct {
	// Function is the name in the profile, without type arguments: "main.(*Shop).cart"
	Function string `json:"function"`
	File     string `json:"file"` // the last two parts of its path
	// Line is the heaviest of the function's lines; 0 if it is not known
	Line int `json:"line"`
	// Share is the part of the profile's weight that is there, 0 to 1. Of says what it is a share
	// of, for a person: "of the processor time".
	Share float64 `json:"share"`
	Of    string  `json:"of"`
}

// At formats the place for a person: "shop/cart.go:12". It leaves out the line if it is not known,
// and is empty if the file is not known.
func (p Place) At() string {
	if p.File == "" || p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Frame is one call in a stack. Calls that the compiler inlined have their own frames.
type Frame struct {
	Function string // without type arguments
	File     string // the last two parts of its path; empty if it is not known
	Line     int    // 0 if it is not known
	// Package is the package of Node.js or Python that the file belongs to, after the folder where
	// packages are installed: "node_modules/@scope/name", "site-packages/name". It is empty for
	// other files.
	Package string
	// whose is 1 plus the frame's Origin if that was not determined from the name alone, and 0
	// otherwise. It is the same in all frames of a function.
	whose int8
}

// The kinds of weight that a Go profile may have. A kind has the profile's own name for it, so that
// kinds of other languages can be used as well.
const (
	CPU          = "cpu"           // processor seconds
	AllocSpace   = "alloc_space"   // bytes allocated
	AllocObjects = "alloc_objects" // objects allocated
	InuseSpace   = "inuse_space"   // bytes alive
	InuseObjects = "inuse_objects" // objects alive
	Goroutine    = "goroutine"     // goroutines
	Contentions  = "contentions"   // waits for a lock (mutex), or for anything (block)
	Delay        = "delay"         // seconds of such waits
)

// samples is how many times a processor profile found a stack running.
const samples = "samples"

// kindWords describes a kind for a person.
type kindWords struct {
	unit, of string
	rate     bool // it grows with time, so its weight is per second
}

var inWords = map[string]kindWords{
	CPU:          {"processor seconds", "of the processor time", true},
	samples:      {"samples", "of the samples", true},
	AllocSpace:   {"bytes allocated", "of the bytes allocated", true},
	AllocObjects: {"objects allocated", "of the objects allocated", true},
	InuseSpace:   {"bytes alive", "of the live heap", false},
	InuseObjects: {"objects alive", "of the live objects", false},
	Goroutine:    {"goroutines", "of the goroutines", false},
	Contentions:  {"waits", "of the waits", true},
	Delay:        {"seconds waited", "of the time waited", true},
}

// Profile is a parsed profile. It does not change, so several goroutines may use it at once.
//
// A kind that the profile does not have weighs nothing: its total is 0, it has no tree, and it has
// no top places.
type Profile struct {
	types   []sampleType
	seconds float64
	frames  []Frame // all different; stacks refer to them by index
	stacks  []stack
}

type sampleType struct {
	name string
	per  float64 // how many of the profile's unit are a second; 1 if it is not a time
}

// stack is one sample: the frames, the leaf first, and a value for each of the profile's types.
type stack struct {
	frames []int32
	values []int64
}

// Kinds returns the names of the kinds of weight in the profile, in its order.
func (p *Profile) Kinds() []string {
	var all []string
	for _, t := range p.types {
		all = append(all, t.name)
	}
	return all
}

// Seconds returns how long the profile was taken; 0 for a profile of one moment, or since the
// process started.
func (p *Profile) Seconds() float64 { return p.seconds }

// Total returns the weight of all stacks: per second of the profile's time if Rate says so, and
// otherwise as it is.
func (p *Profile) Total(kind string) (sum float64) {
	for _, w := range p.weighed(kind) {
		sum += w.weight
	}
	return sum
}

// Rate reports whether weights of a kind are per second of the profile's time. They are not for
// goroutines and for the live heap, nor in a profile that does not say how long it was taken.
func (p *Profile) Rate(kind string) bool { return inWords[kind].rate && p.seconds > 0 }

// Unit returns the unit of a kind's weights, for a person: "processor seconds a second",
// "goroutines".
func (p *Profile) Unit(kind string) string {
	unit := inWords[kind].unit
	if unit == "" {
		unit = kind
	}
	if p.Rate(kind) {
		return unit + " a second"
	}
	return unit
}

// weighed is a stack with its weight in one kind.
type weighed struct {
	frames []int32
	weight float64
}

// weighed returns the stacks with a positive weight. A difference of two profiles, which is what Go
// returns for a period of time, may have negative values, for example where memory was freed. They
// are left out.
func (p *Profile) weighed(kind string) (all []weighed) {
	for i, t := range p.types {
		if t.name != kind {
			continue
		}
		per := t.per
		if p.Rate(kind) {
			per *= p.seconds
		}
		for _, s := range p.stacks {
			if v := s.values[i]; v > 0 {
				all = append(all, weighed{s.frames, float64(v) / per})
			}
		}
		return all
	}
	return nil
}

// grain returns the weight of one sample. It is 0 if the profile does not count samples, or if the
// samples do not measure the kind.
func (p *Profile) grain(kind string) float64 {
	count := p.Total(samples)
	if kind != CPU || count == 0 {
		return 0
	}
	if p.Rate(samples) {
		count *= p.seconds
	}
	return p.Total(kind) / count
}

// stack writes a stack's frames into into, the leaf first.
func (p *Profile) stack(frames []int32, into []Frame) []Frame {
	into = into[:0]
	for _, f := range frames {
		into = append(into, p.frames[f])
	}
	return into
}
