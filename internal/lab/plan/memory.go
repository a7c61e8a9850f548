package plan

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/stats"
)

const (
	// fewestPoints is how many different numbers of connections a fit needs: two always make a
	// line.
	fewestPoints = 3
	// fewestForActive is how many steps are needed to separate the memory of active connections
	// from that of idle ones. mostAlike is the maximum correlation of the two in those steps.
	fewestForActive = 6
	mostAlike       = .95
	// far is the factor beyond the measured connections from which an extrapolation is a guess.
	far = 10
)

// Memory is the memory for the connections of one instance: Base + PerConnection × all + PerActive
// × active ones.
type Memory struct {
	Idle   int    `json:"idle"`
	Active int    `json:"active"`
	Total  Figure `json:"total"` // bytes
	// Error: half width of its 95 % interval, in bytes
	Error         float64 `json:"error_bytes"`
	Base          Figure  `json:"base"`
	PerConnection Figure  `json:"per_connection"`
	// PerActive is nil if the steps cannot separate active connections from idle ones.
	PerActive *Figure `json:"per_active,omitempty"`
	// PerConnectionError and PerActiveError are half widths of 95 % intervals, in bytes.
	PerConnectionError float64       `json:"per_connection_error_bytes"`
	PerActiveError     float64       `json:"per_active_error_bytes"`
	Points             []MemoryPoint `json:"points,omitempty"`
	// Beyond is the requested number of connections divided by the highest measured one.
	Beyond float64     `json:"beyond_factor"`
	Table  []MemoryRow `json:"table,omitempty"`
}

// MemoryPoint is a measured step.
type MemoryPoint struct {
	Connections float64 `json:"connections"`
	Active      float64 `json:"active"`
	Bytes       float64 `json:"bytes"`
}

// MemoryRow is the model's result for another number of connections, with the same share of active
// ones as requested.
type MemoryRow struct {
	Connections int     `json:"connections"`
	Bytes       float64 `json:"bytes"`
	Error       float64 `json:"error_bytes"`
}

// memory models the resident memory by the number of connections, if requested.
func (p *DeploymentPlan) memory(run *record.Run, more []*record.Run) {
	o := &p.Options
	if o.Idle+o.Active == 0 {
		return
	}
	points := memoryPoints(append([]*record.Run{run}, more...))
	different := distinct(points)
	if different < fewestPoints {
		p.Missing = append(p.Missing, fmt.Sprintf("memory for %d connections: "+
			"the steps have the target's resident memory (%s) at %d different numbers of "+
			"connections, and %d are the fewest to draw a line through: "+
			"run `plimsoll survey … --quick --connections N --out DIR` for several N, far apart, "+
			"and name the directories with --memory DIR",
			o.Idle+o.Active, measure.TargetRSS, different, fewestPoints))
		return
	}
	l, active, ok := fitMemory(points)
	if !ok || l.coefficients[1] <= 0 {
		p.Missing = append(p.Missing, fmt.Sprintf("memory for %d connections: "+
			"in the steps the resident memory does not grow with the connections (%.0f to %.0f "+
			"of them), so they say nothing of more: survey with connections further apart "+
			"(--connections N), and name the directories with --memory DIR",
			o.Idle+o.Active, least(points), most(points)))
		return
	}
	p.Memory = newMemory(l, active, points, o)
	if m := p.Memory; m.Beyond > far {
		p.caution("memory is asked for %.3g times the connections that were measured: "+
			"a straight line may bend on the way (tables that double, buffers, "+
			"the garbage collector's goal)", m.Beyond)
	}
	if p.Memory.Error > p.Memory.Total.Value {
		p.caution("the error of the memory is larger than the figure itself: " +
			"more steps with connections further apart are needed")
	}
	p.caution("resident memory leaves out what the kernel keeps of each connection: " +
		"some 4 kB when it is idle, and its buffers when it is not")
}

func newMemory(l line, active bool, points []MemoryPoint, o *Options) *Memory {
	how := fmt.Sprintf("least squares over %d steps with %.0f to %.0f connections",
		len(points), least(points), most(points))
	at := func(idle, active float64) []float64 {
		return []float64{1, idle + active, active}[:len(l.coefficients)]
	}
	total := at(float64(o.Idle), float64(o.Active))
	m := &Memory{
		Idle:               o.Idle,
		Active:             o.Active,
		Points:             points,
		Beyond:             float64(o.Idle+o.Active) / most(points),
		Total:              Figure{max(0, l.value(total)), "bytes", how},
		Error:              l.doubt(total),
		Base:               Figure{l.coefficients[0], "bytes", how},
		PerConnection:      Figure{l.coefficients[1], "bytes", how},
		PerConnectionError: l.error(1),
	}
	if active {
		m.PerActive = &Figure{
			l.coefficients[2], "bytes", how + ", by their most requests in flight",
		}
		m.PerActiveError = l.error(2)
	}
	share := float64(o.Active) / float64(o.Idle+o.Active)
	for _, n := range []int{1_000, 10_000, 100_000, MostConnections} {
		x := at(float64(n)*(1-share), float64(n)*share)
		m.Table = append(m.Table, MemoryRow{n, max(0, l.value(x)), l.doubt(x)})
	}
	return m
}

// fitMemory separates active connections from idle ones if the steps allow it and the result makes
// sense: an active one must not take less than an idle one.
func fitMemory(points []MemoryPoint) (l line, active, ok bool) {
	bytes := make([]float64, len(points))
	two, three := make([][]float64, len(points)), make([][]float64, len(points))
	for i, at := range points {
		bytes[i] = at.Bytes
		two[i], three[i] = []float64{1, at.Connections}, []float64{1, at.Connections, at.Active}
	}
	if len(points) >= fewestForActive && math.Abs(correlation(points)) < mostAlike {
		if l, ok = leastSquares(three, bytes); ok && l.coefficients[1] > 0 &&
			l.coefficients[2] >= 0 {
			return l, true, true
		}
	}
	l, ok = leastSquares(two, bytes)
	return l, false, ok
}

// memoryPoints returns the steps with resident memory. In the warm-up, memory is not yet at its
// final level; in the recovery, it is still at that of the overload.
func memoryPoints(runs []*record.Run) (points []MemoryPoint) {
	for _, run := range runs {
		for i := range run.Steps {
			s := &run.Steps[i]
			if s.Plan.Phase == measure.PhaseWarmUp || s.Plan.Phase == measure.PhaseRecovery {
				continue
			}
			var bytes, connected []float64
			for _, sample := range s.Samples {
				if !s.Judged(sample.At) {
					continue
				}
				if v, there := sample.Values[measure.TargetRSS]; there && v >= 0 && v <= mostBytes {
					bytes = append(bytes, v)
				}
				if v, there := sample.Values[measure.ListenerEstablished]; there && v >= 0 &&
					v <= mostHeld {
					connected = append(connected, v)
				}
			}
			connections := float64(min(uint64(max(s.Plan.Connections, 0)),
				s.Totals.ConnectionsMade))
			if len(connected) > 0 {
				connections = stats.Median(connected)
			}
			if len(bytes) > 0 && connections > 0 {
				points = append(points, MemoryPoint{
					connections, min(float64(s.Totals.Peak), connections), stats.Median(bytes),
				})
			}
		}
	}
	return points
}

// residentAtMost returns the highest resident memory of a run, in bytes; 0 if there is none.
func residentAtMost(run *record.Run) (bytes float64) {
	for i := range run.Steps {
		for _, sample := range run.Steps[i].Samples {
			if v := sample.Values[measure.TargetRSS]; v <= mostBytes {
				bytes = max(bytes, v)
			}
		}
	}
	return bytes
}

// distinct counts the numbers of connections that differ by at least a twentieth: a few connections
// lost and reopened add no information.
func distinct(points []MemoryPoint) (n int) {
	all := make([]float64, len(points))
	for i, at := range points {
		all[i] = at.Connections
	}
	slices.Sort(all)
	last := 0.0
	for _, c := range all {
		if c > 1.05*last {
			n, last = n+1, c
		}
	}
	return n
}

func least(points []MemoryPoint) float64 {
	return slices.MinFunc(points, func(a, b MemoryPoint) int {
		return int(a.Connections - b.Connections)
	}).Connections
}

func most(points []MemoryPoint) float64 {
	return slices.MaxFunc(points, func(a, b MemoryPoint) int {
		return int(a.Connections - b.Connections)
	}).Connections
}

// correlation returns the correlation of all and active connections, −1 to 1; 1 if one of them does
// not vary.
func correlation(points []MemoryPoint) float64 {
	n := float64(len(points))
	var x, y, xx, yy, xy float64
	for _, p := range points {
		x, y = x+p.Connections, y+p.Active
		xx, yy, xy = xx+p.Connections*p.Connections, yy+p.Active*p.Active, xy+p.Connections*p.Active
	}
	spread := (xx - x*x/n) * (yy - y*y/n)
	if spread <= 0 {
		return 1
	}
	return (xy - x*y/n) / math.Sqrt(spread)
}
