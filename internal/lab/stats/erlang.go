package stats

// ErlangB returns the share of random arrivals that are turned away where there are so many servers and
// no room to wait (Erlang 1917). load is how many servers would be busy if there were enough.
func ErlangB(servers int, load float64) float64 {
	b := 1.0
	for i := 1; i <= servers; i++ {
		b = load * b / (float64(i) + load*b)
	}
	return b
}

// ErlangC returns the share that waits, where there is room and service times are exponential. load
// must be less than servers.
func ErlangC(servers int, load float64) float64 {
	b, rho := ErlangB(servers, load), load/float64(servers)
	return b / (1 - rho*(1-b))
}
