package loadline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Line is the load line of one target as a survey has measured it. It is read from the file that
// plimsoll survey --export writes.
type Line struct {
	Rate     Interval
	Target   string // host:port that was surveyed
	Mix, SLO string // for people
	Host     string // the machine that the survey ran on
	// Elsewhere says that the survey ran on another machine than this one, so that a loopback
	// address means a different service.
	Elsewhere bool
	// Uncrowded is the time, in nanoseconds, of a request that waited for no other request; 0 if
	// the file does not say.
	Uncrowded float64
	Measured  time.Time
	// At is Measured on the clock of the windows, in nanoseconds.
	At int64
}

// LineVersion is the schema_version that ReadLine reads.
const LineVersion = 2

// ReadLine reads a line file. It ignores unknown keys.
func ReadLine(text []byte) (*Line, error) {
	var f struct {
		SchemaVersion int       `json:"schema_version"`
		Target        string    `json:"target"`
		SLO           string    `json:"slo"`
		Mix           string    `json:"mix"`
		MeasuredAt    time.Time `json:"measured_at"`
		Uncrowded     float64   `json:"uncrowded_seconds"`
		Machine       struct {
			Host string `json:"host"`
		} `json:"machine"`
		Line struct {
			Found bool      `json:"found"`
			Rate  *Interval `json:"rate_per_second"`
			Why   string    `json:"why"`
		} `json:"line"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(text), &f); err != nil {
		return nil, fmt.Errorf("it is not a line file, as plimsoll survey --export writes it: %w", err)
	}
	if f.SchemaVersion != LineVersion {
		return nil, fmt.Errorf("it has schema_version %d, and this plimsoll reads %d: "+
			"export the line again with this plimsoll", f.SchemaVersion, LineVersion)
	}
	if !f.Line.Found || f.Line.Rate == nil {
		return nil, errors.New("the survey found no line: " + orUnknown(f.Line.Why))
	}
	r := *f.Line.Rate
	if !(r.Low > 0 && r.Low <= r.Estimate && r.Estimate <= r.High && r.High < 1e12) {
		return nil, fmt.Errorf("line.rate_per_second goes from %g over %g to %g: "+
			"these must be above 0 and in ascending order", r.Low, r.Estimate, r.High)
	}
	target, err := url.Parse(f.Target)
	if err != nil || target.Host == "" {
		return nil, errors.New("target is not the URL of what was surveyed")
	}
	if !(f.Uncrowded >= 0 && f.Uncrowded < 1e6) {
		return nil, fmt.Errorf("uncrowded_seconds is %g, which no request takes", f.Uncrowded)
	}
	return &Line{
		Rate: r, Target: hostPort(target), Mix: f.Mix, SLO: f.SLO, Uncrowded: f.Uncrowded * 1e9,
		Measured: f.MeasuredAt, Host: f.Machine.Host,
	}, nil
}

func orUnknown(why string) string {
	if why == "" {
		return "it does not say why"
	}
	return why
}

// hostPort is a URL's host with its port.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	port := map[string]string{"https": "443"}[u.Scheme]
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

const (
	// doubtful is the factor by which both ends of an interval move outwards if it may be of
	// another service.
	doubtful = 2
	// otherMix is the ratio of uncrowded times above which the mix or the machine is taken to be
	// another.
	otherMix = 1.3
)

// Doubt says why, judging by the addresses, the line may not be of a service with these targets. It
// is empty if there is no doubt.
func (l *Line) Doubt(targets []string) string {
	if host, _, _ := net.SplitHostPort(l.Target); l.Elsewhere && loopback(host) {
		return fmt.Sprintf("%s was surveyed on the machine %s, which is not this one", l.Target, l.Host)
	}
	if slices.Contains(targets, l.Target) {
		return ""
	}
	return fmt.Sprintf("%s was surveyed, which is not one of the targets", l.Target)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// doubt is Doubt, extended by what the traffic shows. uncrowded is the mean time of uncrowded
// requests now, in nanoseconds; 0 while it is not known.
func (l *Line) doubt(s *service, uncrowded float64) string {
	var why []string
	if d := l.Doubt(s.Targets); d != "" {
		why = append(why, d)
	}
	if l.Uncrowded > 0 && uncrowded > 0 &&
		(uncrowded > otherMix*l.Uncrowded || l.Uncrowded > otherMix*uncrowded) {
		why = append(why, fmt.Sprintf("an uncrowded request takes %.3g ms and took %.3g ms in the "+
			"survey, so that the mix or the machine is another one", uncrowded/1e6, l.Uncrowded/1e6))
	}
	return strings.Join(why, "; ")
}

// join merges the survey's line into the estimate of a service. If the two agree, they are weighted
// by their precision. If they do not, the estimate from the traffic stands, because it is newer.
func (l *Line) join(est *Estimate, s *service, uncrowded float64, now int64) {
	if l == nil {
		return
	}
	prior := l.Rate.times(float64(max(len(s.Targets), 1)))
	how := fmt.Sprintf("a survey of %s found %.4g a second for a target (%s)",
		l.Measured.Format(time.DateOnly), l.Rate.Estimate, l.Mix)
	if why := l.doubt(s, uncrowded); why != "" {
		prior.Low, prior.High = prior.Low/doubtful, prior.High*doubtful
		how += "; it may be that of another service: " + why
	}
	live := est.Capacity
	switch {
	case live == nil:
		est.Capacity, est.Age, est.How = &prior, seconds(now-l.At), how
	case live.High < prior.Low || prior.High < live.Low:
		est.How += "; " + how + ", which the traffic contradicts"
	default:
		both := weighed(*live, prior)
		est.Capacity, est.How = &both, est.How+"; "+how
	}
}

// weighed is the mean of two estimates of the same quantity, weighted by precision on a logarithmic
// scale.
func weighed(a, b Interval) Interval {
	const least = .01
	width := func(i Interval) float64 { return max(math.Log(i.High/max(i.Low, 1e-9))/4, least) }
	x, y := 1/square(width(a)), 1/square(width(b))
	middle := math.Exp((x*math.Log(a.Estimate) + y*math.Log(b.Estimate)) / (x + y))
	half := math.Exp(2 / math.Sqrt(x+y))
	return Interval{middle / half, middle, middle * half}
}
