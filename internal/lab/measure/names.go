package measure

import (
	"net/netip"
	"strings"
)

// SampleName is a name that samples may hold, and what its value is. The rooms that read samples
// have a table of theirs.
type SampleName struct {
	// Name may have "<n>" in it, which stands for a number, or end in "<address>", which stands for
	// an address and port or the path of a Unix socket, or in other words in such brackets, which
	// stand for anything.
	Name string
	// Counter says that the value only grows, so that differences between samples mean something; a
	// gauge is what it is at the moment.
	Counter bool
	Means   string
}

// Counter names a value that only grows.
func Counter(name, means string) SampleName { return SampleName{name, true, means} }

// Gauge names a value that is what it is at the moment.
func Gauge(name, means string) SampleName { return SampleName{name, false, means} }

// Is says whether a name in a sample is this one.
func (n SampleName) Is(name string) bool {
	if begins, of := strings.CutSuffix(n.Name, "<address>"); of {
		to, is := strings.CutPrefix(name, begins)
		_, err := netip.ParseAddrPort(to)
		return is && (err == nil || strings.HasPrefix(to, UnixAddress))
	}
	before, after, pattern := strings.Cut(n.Name, "<n>")
	if !pattern {
		begins, _, open := strings.Cut(n.Name, "<")
		return n.Name == name || open && strings.HasPrefix(name, begins) && name != begins
	}
	number, ok := strings.CutPrefix(name, before)
	number, ok2 := strings.CutSuffix(number, after)
	return ok && ok2 && number != "" && strings.Trim(number, "0123456789") == ""
}

// The names of samples' values are constants, here and nowhere else: a name that is mistyped in a
// literal is a figure that is missing without a word. The packages probe, scrape and kernel write
// them, and each has a table (Values) of what its names mean.

// These begin names: those of a whole group, and those of things of which there may be any number.
const (
	// HostNames begins what is said of the generator's machine.
	HostNames = "host."
	// GoNames begins what is said of a Go runtime.
	GoNames = "go."
	// PerfNames begins what perf events count.
	PerfNames = "perf."
	// Metrics begins the names of a metrics page's own series; a series' name follows it.
	Metrics = "metrics."
	// HostCore begins the names of the processor time of single cores; see HostCoreBusy.
	HostCore = "host.core."
	// OutgoingTo begins the names of the values that tell the target's connections by where they
	// go: an address and port follow it, or UnixAddress and the path of a Unix socket.
	OutgoingTo = "target.outgoing.to."
	// OutgoingFresh begins the names of the counters of connections over Unix sockets that were not
	// there a look before; the same address follows it.
	OutgoingFresh = "target.outgoing.fresh."
	// UnixAddress begins the address of what listens on a Unix socket.
	UnixAddress = "unix:"
	// OutgoingWaiting begins the names of those of these connections on which an answer is waited
	// for; the same address follows it.
	OutgoingWaiting = "target.outgoing.waiting."
	// OutgoingExchanges begins the names of the counters of what went to and fro on these
	// connections; the same address follows it.
	OutgoingExchanges = "target.outgoing.exchanges."
	// Behind begins the names of the processor time of what the target asks on its own machine: an
	// address and port, a slash and the process's name follow it.
	Behind = "behind.cpu_seconds."
	// OthersCPU begins the names of the processor time of the machine's processes that are not
	// known to have to do with the load: a process's name follows it.
	OthersCPU = "host.others.cpu_seconds."
	// BPFRetransmitsOf begins the names of counters of single connections; "8080-192.0.2.7:443"
	// follows: the local port, and the other end.
	BPFRetransmitsOf = "bpf.retransmits.of."
)

// HostCoreBusy names the processor time of one core that was not idle, in seconds; the number may
// be "<n>", which stands for any of them.
func HostCoreBusy(number string) string { return HostCore + number + ".busy_seconds" }

// The machine on which the probes run, which is the generator's. Package probe writes these from
// /proc and /sys. HostCPU… and HostDiskBusy are seconds, and only grow; memory, swap, bytes of disks
// and of the network are bytes; the rest is counted: packets, segments, connections, faults.
const (
	HostCPU                = "host.cpu.busy_seconds"
	HostCPUUser            = "host.cpu.user_seconds"
	HostCPUSystem          = "host.cpu.system_seconds"
	HostCPUIowait          = "host.cpu.iowait_seconds"
	HostCPUSteal           = "host.cpu.steal_seconds"
	HostCores              = "host.cores"
	HostNUMANodes          = "host.numa_nodes"
	HostRunQueue           = "host.run_queue"
	HostContextSwitches    = "host.context_switches"
	HostMemoryAvailable    = "host.memory.available_bytes"
	HostMajorFaults        = "host.faults.major"
	HostSwapIn             = "host.swap.in_bytes"
	HostSwapOut            = "host.swap.out_bytes"
	HostDiskRead           = "host.disk.read_bytes"
	HostDiskWritten        = "host.disk.written_bytes"
	HostDiskBusy           = "host.disk.busy_seconds"
	HostNetReceived        = "host.net.received_bytes"
	HostNetSent            = "host.net.sent_bytes"
	HostNetDropped         = "host.net.dropped"
	HostTCPInUse           = "host.tcp.in_use"
	HostTCPTimeWait        = "host.tcp.time_wait"
	HostTCPSegmentsSent    = "host.tcp.segments_sent"
	HostTCPRetransmits     = "host.tcp.retransmits"
	HostTCPSYNRetransmits  = "host.tcp.syn_retransmits"
	HostTCPListenOverflows = "host.tcp.listen_overflows"
	HostTCPListenDrops     = "host.tcp.listen_drops"
	HostTCPOpenedActive    = "host.tcp.opened_active"
	HostTCPOpenedPassive   = "host.tcp.opened_passive"
	HostTCPPorts           = "host.tcp.ports"
	HostTCPPortsUsed       = "host.tcp.ports_used"
	HostTCPPortsUsedRemote = "host.tcp.ports_used_remote"
	HostTCPTimeWaitReuse   = "host.tcp.tw_reuse"
	HostTCPSomaxconn       = "host.tcp.somaxconn"
	HostConntrackEntries   = "host.conntrack.entries"
	HostConntrackLimit     = "host.conntrack.limit"
)

// The sockets that the target listens on and the connections that clients have to it, as package
// probe finds them by INET_DIAG or in /proc. All are counts, most of them of connections.
const (
	ListenerQueue          = "listener.queue"
	ListenerQueueLimit     = "listener.queue_limit"
	ListenerRetransmits    = "listener.retransmits"
	ListenerEstablished    = "listener.connections.established"
	ListenerSYNReceived    = "listener.connections.syn_received"
	ListenerFinWait        = "listener.connections.fin_wait"
	ListenerTimeWait       = "listener.connections.time_wait"
	ListenerCloseWait      = "listener.connections.close_wait"
	ListenerClientTimeWait = "listener.clients.time_wait"
)

// The target's processes and its cgroup, by package probe. Times are in seconds and only grow,
// sizes are in bytes, and a quota and what the hottest thread uses in processors. The rest is
// counted: TargetWaiting… are threads by what they wait for, TargetOutgoing… the connections that
// the target has opened, by their state.
const (
	TargetCPU                        = "target.cpu.seconds"
	TargetCPUUser                    = "target.cpu.user_seconds"
	TargetCPUSystem                  = "target.cpu.system_seconds"
	TargetCoresAllowed               = "target.cores_allowed"
	TargetRSS                        = "target.memory.rss_bytes"
	TargetMajorFaults                = "target.faults.major"
	TargetMinorFaults                = "target.faults.minor"
	TargetProcesses                  = "target.processes"
	TargetContextSwitchesVoluntary   = "target.context_switches.voluntary"
	TargetContextSwitchesInvoluntary = "target.context_switches.involuntary"
	TargetDescriptors                = "target.descriptors"
	TargetDescriptorsMost            = "target.descriptors_most"
	TargetDescriptorsLimit           = "target.descriptors_limit"
	TargetThreads                    = "target.threads"
	TargetThreadsHottest             = "target.threads.hottest_share"
	TargetThreadsFull                = "target.threads.full"
	TargetThreadsRunning             = "target.threads.running"
	TargetWaitingFutex               = "target.threads.waiting.futex"
	TargetWaitingEvents              = "target.threads.waiting.events"
	TargetWaitingPoll                = "target.threads.waiting.poll"
	TargetWaitingAccept              = "target.threads.waiting.accept"
	TargetWaitingSocketRead          = "target.threads.waiting.socket_read"
	TargetWaitingSocketWrite         = "target.threads.waiting.socket_write"
	TargetWaitingPipe                = "target.threads.waiting.pipe"
	TargetWaitingSleep               = "target.threads.waiting.sleep"
	TargetWaitingDisk                = "target.threads.waiting.disk"
	TargetWaitingFileLock            = "target.threads.waiting.file_lock"
	TargetWaitingOther               = "target.threads.waiting.other"
	TargetOutgoingEstablished        = "target.outgoing.established"
	TargetOutgoingCloseWait          = "target.outgoing.close_wait"
	TargetOutgoingTimeWait           = "target.outgoing.time_wait"
	TargetOutgoingTimeWaitThere      = "target.outgoing.time_wait_there"
	TargetCgroupCPUQuota             = "target.cgroup.cpu_quota_cores"
	TargetCgroupPeriods              = "target.cgroup.periods"
	TargetCgroupThrottledPeriods     = "target.cgroup.throttled_periods"
	TargetCgroupThrottled            = "target.cgroup.throttled_seconds"
	TargetCgroupMemory               = "target.cgroup.memory_bytes"
	TargetCgroupMemoryLimit          = "target.cgroup.memory_limit_bytes"
	TargetSafepoints                 = "target.safepoints"
	TargetSafepointTime              = "target.safepoint_seconds"
)

// What a Go service says of its runtime, by package scrape. Times are in seconds, sizes in bytes.
const (
	GoGoroutines       = "go.goroutines"
	GoMaxProcs         = "go.gomaxprocs"
	GoGCPercent        = "go.gogc_percent"
	GoMemoryLimit      = "go.memory_limit_bytes"
	GoHeapLive         = "go.heap.live_bytes"
	GoHeapGoal         = "go.heap.goal_bytes"
	GoAllocatedBytes   = "go.allocated_bytes"
	GoAllocatedObjects = "go.allocated_objects"
	GoGCCycles         = "go.gc.cycles"
	GoGCCPU            = "go.gc.cpu_seconds"
	GoGCPauseP50       = "go.gc.pause.p50_seconds"
	GoGCPauseP95       = "go.gc.pause.p95_seconds"
	GoSchedLatencyP50  = "go.sched.latency.p50_seconds"
	GoSchedLatencyP99  = "go.sched.latency.p99_seconds"
	GoMutexWait        = "go.mutex.wait_seconds"
)

// The pools of database/sql, and what the database allows, by package scrape: connections, and
// times in seconds.
const (
	DBMaxOpen        = "db.max_open"
	DBMaxIdle        = "db.max_idle"
	DBMaxLifetime    = "db.max_lifetime_seconds"
	DBOpen           = "db.open"
	DBInUse          = "db.in_use"
	DBIdle           = "db.idle"
	DBWaits          = "db.waits"
	DBWait           = "db.wait_seconds"
	DBClosedIdle     = "db.closed.idle"
	DBClosedIdleTime = "db.closed.idle_time"
	DBClosedLifetime = "db.closed.lifetime"
	DBServerLimit    = "db.server_limit"
)

// What the kernel's perf events counted of the target's threads, by package kernel: all only grow;
// PerfTaskClock is in seconds.
const (
	PerfContextSwitches = "perf.context_switches"
	PerfMigrations      = "perf.cpu_migrations"
	PerfMinorFaults     = "perf.faults.minor"
	PerfMajorFaults     = "perf.faults.major"
	PerfTaskClock       = "perf.task_clock_seconds"
	PerfCycles          = "perf.cycles"
	PerfInstructions    = "perf.instructions"
	PerfCacheReferences = "perf.cache_references"
	PerfCacheMisses     = "perf.cache_misses"
	PerfBranchMisses    = "perf.branch_misses"
)

// What programs in the kernel counted, by package kernel: times in seconds, added up over threads,
// and TCP segments.
const (
	BPFOffCPURunnable = "bpf.offcpu.runnable_seconds"
	BPFOffCPUWaiting  = "bpf.offcpu.waiting_seconds"
	BPFRetransmits    = "bpf.retransmits"
)

// Doing begins the names of how many processes of such a service do the same at a moment, as far as
// their titles say, as PostgreSQL's do: an address and port, a slash, the process's name, another
// slash and what they do follow it.
const Doing = "behind.doing."

// What the target's threads do. The system gives threads a name, and what only counts them is left
// out of it here: "GC Thread" is all of HotSpot's collector's.
const (
	// ThreadsCPU begins the names of the processor time of the threads of one name, which follows.
	ThreadsCPU = "target.threads.cpu_seconds."
	// ThreadsAt begins the names of how many threads stand in one place: their name, the kind of
	// place, the system call and the kernel's wait channel follow it, with semicolons between them.
	ThreadsAt = "target.threads.at."
	// ThreadsWaiting begins the names of the kinds of places that threads wait in: TargetWaiting….
	ThreadsWaiting = "target.threads.waiting."
)

// What the target reads.
const (
	TargetReads     = "target.reads"
	TargetReadBytes = "target.read_bytes"
	// TargetOpened begins the names of how often files of one folder, or one file, were seen to have
	// been opened. The absolute path follows.
	TargetOpened = "target.files.opened."
	// TargetLocked begins the names of whether the target holds a lock for writing on a file. The
	// absolute path follows, behind LockOfSQLite where the lock is one of SQLite's.
	TargetLocked = "target.files.locked."
	LockOfSQLite = "sqlite:"
)

// What the collectors of a JVM have done, as its own file of figures says.
const (
	// TargetCollections begins the names of how often a collector has stopped the target: the name
	// that the JVM has for the collector follows it.
	TargetCollections = "target.gc.collections."
	// TargetCollecting begins the names of for how many seconds it has.
	TargetCollecting = "target.gc.collecting_seconds."
	// TargetCollectedFor begins the names of how many of its collections had the same cause, which
	// follows.
	TargetCollectedFor = "target.gc.collected_for."
	// TargetOld and TargetOldMost are what is in the old generation of the heap, as the last
	// collection has left it, and what may be.
	TargetOld     = "target.gc.old_bytes"
	TargetOldMost = "target.gc.old_most_bytes"
)

// What a target may run on, by the names that a run's manifest has.
const (
	RuntimeGo      = "go"
	RuntimeNode    = "node"
	RuntimeCPython = "cpython"
	RuntimeJVM     = "jvm"
	RuntimeRuby    = "ruby"
	RuntimePHPFPM  = "php-fpm"
	RuntimeDotNet  = ".net"
	RuntimeRust    = "rust"
	RuntimeCpp     = "c++"
	RuntimeC       = "c"
)
