// Package concurrency is a stub until the law is merged.
package concurrency

type Mode uint8

const (
	Gradient Mode = iota
	AIMD
	Fixed
)

type Options struct {
	Mode              Mode
	Min, Max, Initial int
	MaxLatency        int64
}
type Window struct {
	Start, End   int64
	Completed    int
	LatencySum   int64
	InflightMean float64
	Limited      bool
	Failed       int
}
type State struct{ Limit int }
type Law struct{ o Options }

func New(o Options) (*Law, error)   { return &Law{o}, nil }
func (l *Law) Observe(w Window) int { return l.o.Initial }
func (l *Law) Limit() int           { return l.o.Initial }
func (l *Law) Explain() State       { return State{l.o.Initial} }
