package doctor

// scope is what a check requires.
type scope int

const (
	ofHost scope = iota
	ofNetwork
	ofProcessor
	ofProcess
	ofGo // a process that is a Go program
)

func (o scope) fits(s *subject) bool {
	switch o {
	case ofProcess:
		return s.pid != 0
	case ofGo:
		return s.pid != 0 && s.built != nil
	}
	return true
}

// opinion is the judgement of a reading.
type opinion struct {
	value       string
	why         string
	advise      bool
	recommended string
	command     string
}

func (o opinion) finding(name string) Finding {
	f := Finding{Name: name, Value: o.value, Verdict: Good, Why: o.why}
	if o.advise {
		f.Verdict, f.Recommended, f.Command = Advise, o.recommended, o.command
	}
	return f
}

// check is an entry of the table.
type check struct {
	name string
	of   scope
	run  func(s *subject) Finding
}

// entry makes a check from a read and a judge function. judge may only use the reading and the
// subject's facts.
func entry[T any](
	name string, of scope, read func(s *subject) (T, error), judge func(s *subject, v T) opinion,
) check {
	return check{name, of, func(s *subject) Finding {
		v, err := read(s)
		if err != nil {
			return Finding{Name: name, Verdict: Unreadable, Why: reason(err)}
		}
		return judge(s, v).finding(name)
	}}
}

// checks is the table of checks, in the order of the report.
var checks = []check{
	entry("descriptors of the process", ofProcess, readDescriptors, judgeDescriptors),
	entry("descriptors of the system", ofHost, readSystemDescriptors, judgeSystemDescriptors),
	entry("backlog in force", ofProcess, readBacklogs, judgeBacklogs),
	entry("net.core.somaxconn", ofNetwork, numbers("net.core.somaxconn", 1), judgeSomaxconn),
	entry("net.ipv4.tcp_max_syn_backlog", ofNetwork, numbers("net.ipv4.tcp_max_syn_backlog", 1),
		judgeSynBacklog),
	entry("net.ipv4.ip_local_port_range", ofNetwork, readPorts, judgePorts),
	entry("net.ipv4.tcp_tw_reuse", ofNetwork, readPorts, judgeReuse),
	entry("net.ipv4.tcp_rmem", ofNetwork, numbers("net.ipv4.tcp_rmem", 3),
		judgeBuffers("net.ipv4.tcp_rmem", 6<<20)),
	entry("net.ipv4.tcp_wmem", ofNetwork, numbers("net.ipv4.tcp_wmem", 3),
		judgeBuffers("net.ipv4.tcp_wmem", 4<<20)),
	entry("net.core.rmem_max", ofNetwork, numbers("net.core.rmem_max", 1),
		judgeMost("net.core.rmem_max")),
	entry("net.core.wmem_max", ofNetwork, numbers("net.core.wmem_max", 1),
		judgeMost("net.core.wmem_max")),
	entry("connection tracking", ofNetwork, readConntrack, judgeConntrack),
	entry("CPU quota", ofProcess, readQuota, judgeQuota),
	entry("memory limit", ofProcess, readMemoryLimit, judgeMemoryLimit),
	entry("GOMAXPROCS", ofGo, readMaxProcs, judgeMaxProcs),
	entry("GOMEMLIMIT", ofGo, readGoMemory, judgeGoMemory),
	entry("vm.swappiness", ofHost, readSwap, judgeSwap),
	entry("transparent huge pages", ofHost, readHugePages, judgeHugePages),
	entry("NUMA nodes", ofHost, readNodes, judgeNodes),
	entry("clock source", ofHost, readClock, judgeClock),
	entry("crypto instructions", ofHost, readInstructions, judgeInstructions),
	entry("AES-128-GCM", ofProcessor, readSpeeds, judgeEncryption),
	entry("full handshakes, ECDSA P-256", ofProcessor, readSpeeds, judgeHandshakesECDSA),
	entry("full handshakes, RSA-2048", ofProcessor, readSpeeds, judgeHandshakesRSA),
}
