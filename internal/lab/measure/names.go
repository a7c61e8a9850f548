package measure

// The names of samples' values that rooms read as well as package probe, which writes these and
// more. A name that was written twice could be mistyped once, and its figure would then be missing
// without a word.
const (
	TargetCPU         = "target.cpu.seconds"    // processor time of the target, a counter
	TargetDescriptors = "target.descriptors"    // open descriptors of the target, a gauge
	HostCPU           = "host.cpu.busy_seconds" // processor time of all cores that was not idle, a counter
	HostCores         = "host.cores"            // processors that are online, a gauge
)
