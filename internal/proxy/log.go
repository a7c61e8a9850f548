package proxy

import (
	"plimsoll/internal/head"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry/accesslog"
)

// writeLog writes the line of the access log. It uses the worker's record, because a local one
// would be allocated on the heap. Times are in nanoseconds.
func (f *flow) writeLog(total, up, own int64) {
	r := &f.w.record
	*r = accesslog.Record{
		Time: reactor.Wall().UnixNano(), Client: f.Client, Listener: f.Listener,
		Method: f.req.Method, Host: f.req.Host, Path: f.req.Path, Query: f.req.Query,
		Protocol: protocols[f.version],
		Status:   f.Response.Status, BytesIn: f.bodyIn, BytesOut: max(0, f.bodyOut-f.headOut),
		Total: total, Upstream: up, Gateway: own,
		Route: f.Route, UpstreamName: f.UpstreamName, Target: f.Target, Class: f.Class,
		Attempts: f.Attempts, Reason: f.Reason.String(),
		Degraded: f.Step.String(), ID: f.ID,
		UserAgent: f.req.Fields.Value(head.UserAgent), Referer: f.req.Fields.Value(head.Referer),
	}
	if f.call != nil {
		r.GRPC = f.call.code.String()
	}
	if f.TLS != nil {
		r.TLS = f.TLS.Version
	}
	if ws := f.webSocket; ws != nil {
		r.WebSocket = true
		r.MessagesIn, r.MessagesOut, r.CloseCode, r.ClosedBy = ws.describe()
	}
	if r.Method == nil { // nothing of the request was understood
		r.Protocol = ""
	}
	f.w.log.Write(r)
	*r = accesslog.Record{}
}

var protocols = [...]string{http10: "HTTP/1.0", http11: "HTTP/1.1", http20: "HTTP/2.0", http30: "HTTP/3.0"}
