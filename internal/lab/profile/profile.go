// Package profile reads pprof profiles and says where in the code their weight is: by function, by
// caller and by stack, in one profile or in the difference between two. It must know nothing of
// runs, rules or pages, and trusts no byte: profiles come from a service over the network.
package profile

import "strconv"

// Place is a place in a program's code.
type Place struct {
	// Function: as the profile has it, without type arguments: "main.(*Shop).cart"
	Function string `json:"function"`
	File     string `json:"file"` // shortened to its last two parts
	// Line: the heaviest of the function's lines; 0 when it is not known
	Line int `json:"line"`
	// Share of the profile's weight that is there, 0 to 1, and what is meant by it, for a person:
	// "of the processor time".
	Share float64 `json:"share"`
	Of    string  `json:"of"`
}

// At is the place as a person reads it: "shop/cart.go:12", without the line or empty where these
// are not known.
func (p Place) At() string {
	if p.File == "" || p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Frame is one call in a stack. Calls that the compiler inlined have frames of their own.
type Frame struct {
	Function string // without type arguments
	File     string // shortened to its last two parts; empty when it is not known
	Line     int    // 0 when it is not known
	// whose is 1 more than whose code it is, where more than the name was needed to say that, and
	// 0 elsewhere. All frames of a function have the same.
	whose int8
}

// What a profile of Go may weigh. A kind is named as the profile names it, so that those of other
// languages can be asked for as well.
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

// samples is how often a processor profile found a stack running.
const samples = "samples"

// kindWords says a kind to a person.
type kindWords struct {
	unit, of string
	rate     bool // it grows with time, so that its weight is for a second
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

// Profile is a profile that was read. It is not changed any more and may be used by many
// goroutines.
//
// A kind that the profile does not have weighs nothing: its total is 0, it has no tree, and nothing
// is at its top.
type Profile struct {
	types   []sampleType
	seconds float64
	frames  []Frame // all different; stacks name them by index
	stacks  []stack
}

type sampleType struct {
	name string
	per  float64 // how many of the profile's unit are a second; 1 where it is not a time
}

// stack is one sample: the frames, the leaf first, and a value for each of the profile's types.
type stack struct {
	frames []int32
	values []int64
}

// Kinds are the names of what the profile weighs, in its order.
func (p *Profile) Kinds() []string {
	var all []string
	for _, t := range p.types {
		all = append(all, t.name)
	}
	return all
}

// Seconds is how long the profile was taken; 0 for one of a moment, or since the process started.
func (p *Profile) Seconds() float64 { return p.seconds }

// Total is the weight of all stacks: for a second of the profile's time where Rate says so, else as
// it stands.
func (p *Profile) Total(kind string) (sum float64) {
	for _, w := range p.weighed(kind) {
		sum += w.weight
	}
	return sum
}

// Rate says whether weights of a kind are for a second of the profile's time: those of goroutines
// and of the live heap never are, nor any of a profile that does not say how long it was taken.
func (p *Profile) Rate(kind string) bool { return inWords[kind].rate && p.seconds > 0 }

// Unit is what weights of a kind are, for a person: "processor seconds a second", "goroutines".
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

// weighed are the stacks that weigh anything. The difference of two profiles, which is what Go
// gives for a stretch of time, may hold negative values, as where memory was freed: they are left
// out.
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

// grain is what one sample weighs; 0 when the profile does not count samples, or the kind is none
// that they measure.
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
