package telemetry

// add adds what another loop counted.
func (c *Counters) add(o *Counters) {
	c.Requests += o.Requests
	c.Accepted += o.Accepted
	c.Closed += o.Closed
	c.SlowConnections += o.SlowConnections
	c.ClientReceived += o.ClientReceived
	c.ClientSent += o.ClientSent
	c.UpstreamReceived += o.UpstreamReceived
	c.UpstreamSent += o.UpstreamSent
	c.MirrorsSent += o.MirrorsSent
	c.MirrorsDropped += o.MirrorsDropped
	c.MirrorsTooLong += o.MirrorsTooLong
	c.Turns += o.Turns
	c.BusyNS += o.BusyNS
	c.CPUNS += o.CPUNS
	c.Active += o.Active
	addEach(c.RefusedConnections[:], o.RefusedConnections[:])
	addEach(c.RefusedRequests[:], o.RefusedRequests[:])
	addEach(c.RefusedHTTP2[:], o.RefusedHTTP2[:])
	c.HTTP2Resets += o.HTTP2Resets
	c.SlowStreams += o.SlowStreams
	addEach(c.UpstreamFaults2[:], o.UpstreamFaults2[:])
	addEach(c.RefusedHTTP3[:], o.RefusedHTTP3[:])
	addEach(c.RefusedHeads3[:], o.RefusedHeads3[:])
	c.HTTP3Resets += o.HTTP3Resets
	c.SlowStreams3 += o.SlowStreams3
	c.HTTP2Shed += o.HTTP2Shed
	c.EarlyHints += o.EarlyHints
	addEach(c.ClaimsIgnored[:], o.ClaimsIgnored[:])
	addEach(c.NotAdmitted[:], o.NotAdmitted[:])
	addEach(c.HandshakeFailures[:], o.HandshakeFailures[:])
	addEach(c.Ends[:], o.Ends[:])
	addEach(c.Reasons[:], o.Reasons[:])
	addEach(c.BuffersOut[:], o.BuffersOut[:])
	c.HTTP2.Connections += o.HTTP2.Connections
	c.HTTP2.Streams += o.HTTP2.Streams
	c.HTTP2.Heaviest = max(c.HTTP2.Heaviest, o.HTTP2.Heaviest)
	for version := range c.Handshakes {
		addEach(c.Handshakes[version][:], o.Handshakes[version][:])
	}
}

// add adds what another loop counted.
func (s *RouteStats) add(o *RouteStats) {
	addEach(s.Codes[:], o.Codes[:])
	s.Total.Merge(&o.Total)
	s.Gateway.Merge(&o.Gateway)
	addEach(s.Reasons[:], o.Reasons[:])
	s.WebSocket.add(&o.WebSocket)
	addEach(s.GRPC[:], o.GRPC[:])
	s.MessagesReceived += o.MessagesReceived
	s.MessagesSent += o.MessagesSent
	for class := range s.SLO {
		s.SLO[class].Add(o.SLO[class])
	}
}

// Add adds the exchanges of o.
func (c *SLOCounts) Add(o SLOCounts) {
	c.Requests += o.Requests
	c.Good += o.Good
}

// add adds what another loop counted.
func (s *UpstreamStats) add(o *UpstreamStats) {
	addEach(s.Codes[:], o.Codes[:])
	s.Duration.Merge(&o.Duration)
	s.Opened += o.Opened
	s.Reused += o.Reused
	s.ConnectFailures += o.ConnectFailures
	s.Retries += o.Retries
	s.RetriesRefused += o.RetriesRefused
	s.Reclaimed += o.Reclaimed
}

func addEach[T uint64 | int64](to, from []T) {
	for i, n := range from {
		to[i] += n
	}
}
