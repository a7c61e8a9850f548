package probe

import (
	"strings"

	"plimsoll/internal/lab/measure"
)

// Value is a name that samples may hold.
type Value struct {
	// Name may have "<n>" in it, which stands for a number.
	Name string
	// Counter says that the value only grows, so that differences between samples mean something; a
	// gauge is what it is at the moment.
	Counter bool
	Means   string
}

// Is says whether a name in a sample is this value's.
func (v Value) Is(name string) bool {
	before, after, pattern := strings.Cut(v.Name, "<n>")
	if !pattern {
		return v.Name == name
	}
	number, ok := strings.CutPrefix(name, before)
	number, ok2 := strings.CutSuffix(number, after)
	return ok && ok2 && number != "" && strings.Trim(number, "0123456789") == ""
}

// Values are all the names that the sources of this package give. Times are in seconds, sizes in
// bytes. What does not exist is left out of samples: a limit that is not set, the listener of a
// target whose address is not known.
var Values = []Value{
	{measure.HostCPU, true, "processor time of all cores that was not idle: user, nice, system, interrupts, and what a hypervisor took (steal)"},
	{"host.core.<n>.busy_seconds", true, "the same of one core, up to 64 of them"},
	{"host.cpu.user_seconds", true, "user and nice time of all cores"},
	{"host.cpu.system_seconds", true, "system and interrupt time of all cores"},
	{"host.cpu.iowait_seconds", true, "time in which cores were idle while something waited for a disk"},
	{"host.cpu.steal_seconds", true, "time that a hypervisor gave to others"},
	{measure.HostCores, false, "processors that are online"},
	{"host.numa_nodes", false, "NUMA nodes that are online"},
	{"host.memory.available_bytes", false, "memory that programs could still get without swapping"},
	{"host.faults.major", true, "page faults that had to read from a disk, of the whole machine"},
	{"host.swap.in_bytes", true, "memory that was read back from swap"},
	{"host.swap.out_bytes", true, "memory that was written to swap"},
	{"host.disk.read_bytes", true, "bytes read from disks; partitions and what is built upon disks count with these"},
	{"host.disk.written_bytes", true, "bytes written to disks"},
	{"host.disk.busy_seconds", true, "time in which the disk that was then the busiest had something to do, since the first sample"},
	{"host.context_switches", true, "context switches of all cores"},
	{"host.run_queue", false, "threads that run or wait for a processor, the one that reads this among them"},
	{"host.net.received_bytes", true, "bytes received by all interfaces but the loopback"},
	{"host.net.sent_bytes", true, "bytes sent by them"},
	{"host.net.dropped", true, "packets that they dropped, received or to be sent"},
	{"host.tcp.in_use", false, "TCP sockets over IPv4 and IPv6 that are in use, listening ones among them"},
	{"host.tcp.time_wait", false, "TCP connections that are over and wait for stray packets"},
	{"host.tcp.retransmits", true, "TCP segments that were sent again"},
	{"host.tcp.syn_retransmits", true, "SYNs among them: attempts to connect that were not answered in time"},
	{"host.tcp.segments_sent", true, "TCP segments that were sent, without those that were sent again"},
	{"host.tcp.listen_overflows", true, "connections that found a full accept queue"},
	{"host.tcp.listen_drops", true, "attempts to connect that a listener dropped, for a full accept queue or another reason"},
	{"host.tcp.opened_active", true, "TCP connections that were asked for from here"},
	{"host.tcp.opened_passive", true, "TCP connections that were asked for from elsewhere"},
	{"host.tcp.ports", false, "local ports that connections may go out from (ip_local_port_range)"},
	{"host.tcp.ports_used", false, "how many of these are in use towards the one remote address and port with the most, TIME-WAIT among them"},
	{"host.tcp.ports_used_remote", false, "the same towards one that is not on the loopback"},
	{"host.tcp.tw_reuse", false, "tcp_tw_reuse: whether a port in TIME-WAIT may go out again: 0 no, 1 yes, 2 over the loopback"},
	{"host.tcp.somaxconn", false, "the most that a listener's backlog may be"},
	{"host.conntrack.entries", false, "connections that the packet filter tracks"},
	{"host.conntrack.limit", false, "how many it may track"},
	{"listener.queue", false, "connections that wait to be accepted; of several listeners, at the one that is nearest to its limit"},
	{"listener.queue_limit", false, "that listener's backlog in force; when more than so many wait, clients are turned away"},
	{"listener.connections.established", false, "connections of the target's port that are open on both sides, those in its accept queue among them"},
	{"listener.connections.syn_received", false, "those that are not complete yet"},
	{"listener.connections.fin_wait", false, "those that the service has closed and the client has not"},
	{"listener.connections.time_wait", false, "those that are over and were closed by the service first"},
	{"listener.connections.close_wait", false, "those that the client has left and the service has not closed: it has not noticed, or still works"},
	{"listener.clients.time_wait", false, "connections to the target that are over and were closed by a client on this machine first"},
	{"listener.retransmits", false, "segments that living connections of the target's port have sent again since they were opened; it falls when they close"},
	{measure.TargetCPU, true, "processor time of the target, to the nanosecond where the kernel tells"},
	{"target.cpu.user_seconds", true, "its user time, in ticks of 10 ms"},
	{"target.cpu.system_seconds", true, "its system time, in ticks of 10 ms"},
	{"target.memory.rss_bytes", false, "its resident memory; what processes share counts for each"},
	{"target.faults.major", true, "its page faults that had to read from a disk"},
	{"target.faults.minor", true, "its page faults that had not"},
	{"target.processes", false, "its processes"},
	{"target.threads", false, "its threads"},
	{"target.cores_allowed", false, "processors that its first process may run on (affinity, cpuset); of those that are offline too"},
	{measure.TargetDescriptors, false, "its open descriptors, of all its processes"},
	{"target.descriptors_most", false, "those of the process with the most"},
	{"target.descriptors_limit", false, "the soft limit of descriptors of its first process"},
	{"target.context_switches.voluntary", true, "times that its living threads waited for something"},
	{"target.context_switches.involuntary", true, "times that its living threads were made to give up the processor"},
	{"target.outgoing.established", false, "connections that it has opened to others and are open on both sides"},
	{"target.outgoing.close_wait", false, "those of them that the other side has closed and it has not"},
	{"target.outgoing.time_wait", false, "connections that went out to where it has been seen to be connected to, are over, and were closed here first"},
	{"target.outgoing.time_wait_there", false, "the same, closed by the other side first, where that is on this machine"},
	{"target.cgroup.cpu_quota_cores", false, "processors that its cgroup may use, the least of its own and those above it"},
	{"target.cgroup.periods", true, "periods of that quota in which the cgroup wanted to run"},
	{"target.cgroup.throttled_periods", true, "those in which it used the quota up"},
	{"target.cgroup.throttled_seconds", true, "time for which it was held back then, added up over cores"},
	{"target.cgroup.memory_bytes", false, "memory of its cgroup, file cache among it; of the one with the limit where there is one"},
	{"target.cgroup.memory_limit_bytes", false, "that limit, the least of its own and those above it"},
}
