package measure

import (
	"net/netip"
	"strings"
)

// SampleName is a name that samples may have, and what its value means. The packages that read
// samples have tables of their own.
type SampleName struct {
	// Name may contain "<n>", which stands for a number. It may end in "<address>", which stands
	// for an address and port or the path of a Unix socket, or in another word in angle brackets,
	// which stands for anything.
	Name string
	// Counter reports that the value only grows, so that differences between samples are
	// meaningful. Other values are gauges.
	Counter bool
	Means   string
}

// Counter returns the name of a value that only grows.
func Counter(name, means string) SampleName { return SampleName{name, true, means} }

// Gauge returns the name of a value that may rise and fall.
func Gauge(name, means string) SampleName { return SampleName{name, false, means} }

// Is reports whether a name in a sample matches n.
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

// The names of samples' values are constants, defined only here: a mistyped literal would silently
// lose a value. The packages probe, scrape and kernel write them, and each has a table (Values) of
// what its names mean.

// Prefixes of names: of groups, and of values that may exist any number of times.
const (
	// HostNames is the prefix for the generator's machine.
	HostNames = "host."
	// GoNames is the prefix for a Go runtime.
	GoNames = "go."
	// PerfNames is the prefix for the counts of perf events.
	PerfNames = "perf."
	// Metrics is the prefix for the series of a metrics page; the name of the series follows.
	Metrics = "metrics."
	// HostCore is the prefix for the processor time of single cores; see HostCoreBusy.
	HostCore = "host.core."
	// OutgoingTo is the prefix for the target's connections by destination: an address and port
	// follow, or UnixAddress and the path of a Unix socket.
	OutgoingTo = "target.outgoing.to."
	// OutgoingFresh is the prefix for the counters of new connections over Unix sockets; the same
	// address follows.
	OutgoingFresh = "target.outgoing.fresh."
	// UnixAddress is the prefix of the address of a listening Unix socket.
	UnixAddress = "unix:"
	// OutgoingWaiting is the prefix for the number of these connections that wait for an answer;
	// the same address follows.
	OutgoingWaiting = "target.outgoing.waiting."
	// OutgoingExchanges is the prefix for the counters of exchanges on these connections; the same
	// address follows.
	OutgoingExchanges = "target.outgoing.exchanges."
	// OutgoingReceived is the prefix for the counters of bytes that came on these connections; the
	// same address follows.
	OutgoingReceived = "target.outgoing.received_bytes."
	// OutgoingAhead is the prefix for how many more segments with data these connections have sent than
	// received; the same address follows.
	OutgoingAhead = "target.outgoing.ahead."
	// TargetEnded is the prefix for how many processes of the target were seen to end; their name follows.
	TargetEnded = "target.processes.ended."
	// Behind is the prefix for the processor time of the services on its own machine that the
	// target connects to: an address and port, a slash and the process's name follow.
	Behind = "behind.cpu_seconds."
	// OthersCPU is the prefix for the processor time of the machine's processes that are not known
	// to be part of the load: a process's name follows.
	OthersCPU = "host.others.cpu_seconds."
	// BPFRetransmitsOf is the prefix for counters of single connections: the local port and the
	// other end follow, as in "8080-192.0.2.7:443".
	BPFRetransmitsOf = "bpf.retransmits.of."
)

// HostCoreBusy returns the name of the busy time of one core, in seconds. number may be "<n>",
// which stands for any core.
func HostCoreBusy(number string) string { return HostCore + number + ".busy_seconds" }

// The machine on which the probes run, which is the generator's. Package probe reads these from
// /proc and /sys. HostCPU… and HostDiskBusy are seconds and only grow. Memory, swap, disk and
// network are bytes. The rest are counts: packets, segments, connections, faults.
const (
	HostCPU                = "host.cpu.busy_seconds"
	HostCPUUser            = "host.cpu.user_seconds"
	HostCPUSystem          = "host.cpu.system_seconds"
	HostCPUIowait          = "host.cpu.iowait_seconds"
	HostCPUSteal           = "host.cpu.steal_seconds"
	HostCPUSlowed          = "host.cpu.slowed_seconds"
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
	HostUDPSent            = "host.udp.sent_datagrams"
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

// The sockets on which the target listens, and its clients' connections, which package probe reads
// from INET_DIAG or /proc. All are counts, most of them of connections.
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

// The target's processes and its cgroup, from package probe. Times are in seconds and only grow.
// Sizes are in bytes. A quota and the usage of the hottest thread are in processors. The rest are
// counts: TargetWaiting… are threads by what they wait for, TargetOutgoing… the connections that
// the target has opened, by state.
const (
	TargetCPU                        = "target.cpu.seconds"
	TargetCPUUser                    = "target.cpu.user_seconds"
	TargetCPUSystem                  = "target.cpu.system_seconds"
	TargetCPUEnded                   = "target.cpu.ended_seconds"
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

// What a Go service reports about its runtime, from package scrape. Times are in seconds, sizes in
// bytes.
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

// The pools of database/sql, and the database's own limit, from package scrape: numbers of
// connections, and times in seconds.
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

// What the kernel's perf events counted for the target's threads, from package kernel. All only
// grow. PerfTaskClock is in seconds.
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

// What BPF programs counted, from package kernel: times in seconds, added up over threads, and TCP
// segments.
const (
	BPFOffCPURunnable = "bpf.offcpu.runnable_seconds"
	BPFOffCPUWaiting  = "bpf.offcpu.waiting_seconds"
	BPFRetransmits    = "bpf.retransmits"
)

// Doing is the prefix for the number of processes of such a service by activity, if their titles
// show it, as PostgreSQL's do: an address and port, a slash, the process's name, another slash and
// the activity follow.
const Doing = "behind.doing."

// What the target's threads do. Threads are grouped by their system name without trailing numbers:
// "GC Thread" covers all of HotSpot's collector threads.
const (
	// ThreadsCPU is the prefix for the processor time of the threads of one name, which follows.
	ThreadsCPU = "target.threads.cpu_seconds."
	// ThreadsAt is the prefix for the number of threads in one place: their name, the kind of
	// place, the system call and the kernel's wait channel follow, separated by semicolons.
	ThreadsAt = "target.threads.at."
	// ThreadsWaiting is the prefix for the kinds of places where threads wait: TargetWaiting….
	ThreadsWaiting = "target.threads.waiting."
)

// What the target reads and writes.
const (
	TargetReads        = "target.reads"
	TargetReadBytes    = "target.read_bytes"
	TargetWrites       = "target.writes"
	TargetWrittenBytes = "target.written_bytes"
	// TargetAppended is the prefix for the bytes by which a file has grown that the target has open.
	// The absolute path follows.
	TargetAppended = "target.files.appended_bytes."
	// TargetOutputFile is the prefix for whether such a file is the standard output, or that for
	// errors, of the process that writes to it. The absolute path follows.
	TargetOutputFile = "target.output.file."
	// TargetOutputPiped is the number of processes that write often, and of which one of these two
	// is a pipe, a Unix socket or a terminal.
	TargetOutputPiped = "target.output.piped"
	// TargetOpened is the prefix for how often files of one folder, or one file, were seen to be
	// opened. The absolute path follows.
	TargetOpened = "target.files.opened."
	// TargetLocked is the prefix for whether the target holds a write lock on a file. The absolute
	// path follows, after LockOfSQLite for a lock of SQLite.
	TargetLocked = "target.files.locked."
	LockOfSQLite = "sqlite:"
)

// What the collectors of a JVM have done, from the JVM's statistics file.
const (
	// TargetCollections is the prefix for how often a collector has stopped the target: the JVM's
	// name of the collector follows.
	TargetCollections = "target.gc.collections."
	// TargetCollecting is the prefix for how many seconds it has stopped the target.
	TargetCollecting = "target.gc.collecting_seconds."
	// TargetCollectedFor is the prefix for the number of collections with the same cause, which
	// follows.
	TargetCollectedFor = "target.gc.collected_for."
	// TargetOld is the size of the heap's old generation after the last collection, and
	// TargetOldMost its maximum.
	TargetOld     = "target.gc.old_bytes"
	TargetOldMost = "target.gc.old_most_bytes"
)

// What a target may run on, with the names used in a run's manifest.
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
