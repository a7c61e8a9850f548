package telemetry

import (
	"log/slog"
	"net/http"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"plimsoll/internal/grpc"
	"plimsoll/internal/hist"
	"plimsoll/internal/http1"
	"plimsoll/internal/http2"
	"plimsoll/internal/http3"
)

// collector gives the prometheus package a snapshot's numbers. Nothing of that package is used to
// count.
type collector struct {
	registry *Registry
	call     Call
}

// Handler serves the metrics in the formats that Prometheus asks for, those of the Go runtime and
// of the process included. It does not compress: on the machine's own network that would cost the
// loops more CPU than it is worth.
func (r *Registry) Handler(call Call) http.Handler {
	p := prometheus.NewRegistry()
	p.MustRegister(collector{r, call}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	o := promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		DisableCompression:  true,
		MaxRequestsInFlight: 4,
	}
	if r.options.Logger != nil {
		o.ErrorLog = slog.NewLogLogger(r.options.Logger.Handler(), slog.LevelError)
	}
	return promhttp.HandlerFor(p, o)
}

// Collect is for the prometheus package.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	c.registry.countScrape()
	s := c.registry.Collect(c.call)
	e := emitter{ch}
	e.routes(s)
	e.upstreams(s)
	e.connections(s, &c.registry.options)
	e.loops(s, &c.registry.options)
	e.outside(&c.registry.options)
	e.self(s, c.registry)
	c.registry.emitExtra(ch)
}

func (r *Registry) countScrape() {
	r.collecting.Lock()
	defer r.collecting.Unlock()
	r.scrapes++
}

// emitter turns numbers into metrics.
type emitter struct{ ch chan<- prometheus.Metric }

func (e emitter) counter(d *prometheus.Desc, v uint64, labels ...string) {
	e.ch <- metric(d, prometheus.CounterValue, float64(v), labels...)
}

func (e emitter) seconds(d *prometheus.Desc, ns uint64, labels ...string) {
	e.ch <- metric(d, prometheus.CounterValue, float64(ns)/1e9, labels...)
}

func (e emitter) gauge(d *prometheus.Desc, v float64, labels ...string) {
	e.ch <- metric(d, prometheus.GaugeValue, v, labels...)
}

// counters emits a counter for each label of a table.
func (e emitter) counters(d *prometheus.Desc, values []uint64, labels []string) {
	for i, label := range labels {
		if label != "" {
			e.counter(d, values[i], label)
		}
	}
}

// codes emits a series for each class of status. The usual ones are there from the start, so that
// their first count shows as an increase; 1xx and none only once there are any.
func (e emitter) codes(d *prometheus.Desc, name string, codes *Codes) {
	for i, n := range codes {
		if n > 0 || i >= 2 {
			e.counter(d, n, name, codeText[i])
		}
	}
}

func (e emitter) histogram(d *prometheus.Desc, b hist.Bounds, h *hist.Histogram, name string) {
	if h.Count() > 0 {
		e.ch <- histogramMetric{d, b, h, name}
	}
}

// metric is a metric with a value; when its labels cannot be read, one that makes the scrape report
// the error.
func metric(
	d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string,
) prometheus.Metric {
	m, err := prometheus.NewConstMetric(d, kind, v, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(d, err)
	}
	return m
}

func (e emitter) routes(s *Snapshot) {
	for i := range s.Routes {
		r := &s.Routes[i]
		e.codes(descRequests, r.Name, &r.Codes)
		e.histogram(descRequestDuration, hist.Durations, &r.Total, r.Name)
		e.histogram(descGatewayDuration, hist.Overheads, &r.Gateway, r.Name)
		e.slo(r)
		e.webSockets(r)
		e.calls(r)
	}
}

// webSockets emits the counts of a route that has had any.
func (e emitter) webSockets(r *RouteSnapshot) {
	s := &r.WebSocket
	if s.Opened == 0 {
		return
	}
	e.counter(descWebSocketsOpened, s.Opened, r.Name)
	e.gauge(descWebSocketsOpen, float64(s.Open()), r.Name)
	for by, n := range s.Closed {
		e.counter(descWebSocketsClosed, n, r.Name, closerText[by])
	}
	e.counter(descWebSocketMessages, s.In, r.Name, "in")
	e.counter(descWebSocketMessages, s.Out, r.Name, "out")
	e.counter(descWebSocketPings, s.Pings, r.Name)
	e.counter(descWebSocketUnframed, s.Unframed, r.Name)
}

// slo emits the counts of the classes that the route is or was in.
func (e emitter) slo(r *RouteSnapshot) {
	for class, n := range r.SLO {
		if n.Requests > 0 || r.classes.has(class) {
			e.counter(descSLORequests, n.Requests, r.Name, className(class))
			e.counter(descSLOGood, n.Good, r.Name, className(class))
		}
	}
}

// calls emits what was counted of gRPC, for routes that have had a call.
func (e emitter) calls(r *RouteSnapshot) {
	calls := uint64(0)
	for code, n := range r.GRPC {
		if calls += n; n > 0 {
			e.counter(descGRPCCalls, n, r.Name, grpc.Code(code).String())
		}
	}
	if calls > 0 {
		e.counter(descGRPCMessages, r.MessagesReceived, r.Name, "received")
		e.counter(descGRPCMessages, r.MessagesSent, r.Name, "sent")
	}
}

// className is the label of an SLA class.
func className(class int) string { return "P" + strconv.Itoa(class) }

func (e emitter) upstreams(s *Snapshot) {
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		e.codes(descUpRequests, u.Name, &u.Codes)
		e.histogram(descUpDuration, hist.Durations, &u.Duration, u.Name)
		e.counter(descUpOpened, u.Opened, u.Name)
		e.counter(descUpReuses, u.Reused, u.Name)
		e.counter(descUpFailures, u.ConnectFailures, u.Name)
		e.counter(descUpRetries, u.Retries, u.Name)
		e.counter(descUpRefused, u.RetriesRefused, u.Name)
		e.counter(descUpReclaimed, u.Reclaimed, u.Name)
	}
	e.counter(descUpReceived, s.UpstreamReceived)
	e.counter(descUpSent, s.UpstreamSent)
}

func (e emitter) connections(s *Snapshot, o *Options) {
	e.counters(descExchanges, s.Ends[:], o.Ends)
	e.counters(descAnswers, s.Reasons[:], o.Reasons)
	for code := http1.OK + 1; int(code) < http1.Errors; code++ {
		e.counter(descRefusedRequests, s.RefusedRequests[code], code.Error())
	}
	for why := http2.OK + 1; int(why) < http2.Reasons; why++ {
		e.counter(descRefusedHTTP2, s.RefusedHTTP2[why], why.Error())
	}
	for why := http2.OK + 1; int(why) < http2.Reasons; why++ {
		e.counter(descUpstreamFaults2, s.UpstreamFaults2[why], why.Error())
	}
	e.counter(descHTTP2Resets, s.HTTP2Resets)
	e.counter(descSlowStreams, s.SlowStreams)
	for why := http3.OK + 1; int(why) < http3.Reasons; why++ {
		e.counter(descRefusedHTTP3, s.RefusedHTTP3[why], why.Error())
	}
	for why := http2.BadFieldName; why <= http2.TooManyFields; why++ {
		e.counter(descRefusedHeads3, s.RefusedHeads3[why], why.Error())
	}
	e.counter(descHTTP3Resets, s.HTTP3Resets)
	e.counter(descSlowStreams3, s.SlowStreams3)
	e.counter(descHTTP2Shed, s.HTTP2Shed)
	e.counter(descEarlyHints, s.EarlyHints)
	for class, n := range s.NotAdmitted {
		e.counter(descNotAdmitted, n, className(class))
	}
	e.gauge(descInFlight, float64(s.Active))
	e.counter(descAccepted, s.Accepted)
	e.counter(descClosed, s.Closed)
	e.counter(descSlow, s.SlowConnections)
	e.gauge(descOpen, float64(int64(s.Accepted-s.Closed)))
	e.counters(descConnRefused, s.RefusedConnections[:], connRefusalText[:])
	e.counter(descReceived, s.ClientReceived)
	e.counter(descSent, s.ClientSent)
	for version, n := range s.Handshakes {
		e.counter(descHandshakes, n[0], tlsVersionText[version], "false")
		e.counter(descHandshakes, n[1], tlsVersionText[version], "true")
	}
	e.counters(descHandshakeFail, s.HandshakeFailures[:], o.HandshakeFailures)
	e.counter(descMirrors, s.MirrorsSent)
	e.counter(descMirrorsDropped, s.MirrorsDropped, "too_many")
	e.counter(descMirrorsDropped, s.MirrorsTooLong, "too_long")
	e.counter(descClaimsIgnored, s.ClaimsIgnored[ClassClaim], "class")
	e.counter(descClaimsIgnored, s.ClaimsIgnored[DeadlineClaim], "deadline")
}

func (e emitter) loops(s *Snapshot, o *Options) {
	for i := range s.Loops {
		c, loop := &s.Loops[i], strconv.Itoa(i)
		e.counter(descLoopRequests, c.Requests, loop)
		e.seconds(descLoopBusy, c.BusyNS, loop)
		e.seconds(descLoopCPU, c.CPUNS, loop)
		e.counter(descLoopTurns, c.Turns, loop)
		e.gauge(descLoopHTTP2, float64(c.HTTP2.Connections), loop)
		e.gauge(descLoopStreams, float64(c.HTTP2.Streams), loop)
		e.gauge(descLoopHeaviest, float64(c.HTTP2.Heaviest), loop)
	}
	for i, size := range o.BufferSizes {
		e.gauge(descBuffers, float64(s.BuffersOut[i]), size)
	}
}

func (e emitter) outside(o *Options) {
	if o.Descriptors != nil {
		used, allowed := o.Descriptors()
		e.gauge(descFDs, float64(used))
		e.gauge(descFDsAllowed, float64(allowed))
	}
	if o.AccessLog != nil {
		written, dropped, lost := o.AccessLog()
		e.counter(descLogWritten, written)
		e.counter(descLogDropped, dropped, "ring_full")
		e.counter(descLogDropped, lost, "write_error")
	}
}

func (e emitter) self(s *Snapshot, r *Registry) {
	e.counter(descScrapes, s.scrapes)
	e.counter(descMissed, s.missedEver)
	e.counter(descShared, s.sharedRoutes, "route")
	e.counter(descShared, s.sharedUpstreams, "upstream")
	if !s.ConfigLoaded.IsZero() {
		e.gauge(descConfig, 1, s.ConfigVersion)
		e.gauge(descConfigLoaded, float64(s.ConfigLoaded.UnixMilli())/1e3)
	}
	e.counter(descReloads, s.Reloads, "success")
	e.counter(descReloads, s.ReloadFailures, "failure")
	e.gauge(descBuild, 1, r.options.Version, r.revision, runtime.Version())
}

// histogramMetric gives a histogram to the prometheus package. That package's own constant
// histogram would want a map of the buckets, which costs ten times as much; with a thousand routes
// that is what a scrape's time goes into.
type histogramMetric struct {
	desc   *prometheus.Desc
	bounds hist.Bounds
	h      *hist.Histogram
	label  string
}

// Desc is for the prometheus package.
func (m histogramMetric) Desc() *prometheus.Desc { return m.desc }

// Write is for the prometheus package.
func (m histogramMetric) Write(out *dto.Metric) error {
	seconds := m.bounds.Seconds()
	counts := m.h.CumulativeAt(m.bounds, make([]uint64, 0, len(seconds)))
	buckets := make([]dto.Bucket, len(seconds))
	list := make([]*dto.Bucket, len(seconds))
	for i := range seconds {
		buckets[i].UpperBound, buckets[i].CumulativeCount = &seconds[i], &counts[i]
		list[i] = &buckets[i]
	}
	count, sum := m.h.Count(), float64(m.h.Sum())/1e9
	out.Label = prometheus.MakeLabelPairs(m.desc, []string{m.label})
	out.Histogram = &dto.Histogram{SampleCount: &count, SampleSum: &sum, Bucket: list}
	return nil
}
