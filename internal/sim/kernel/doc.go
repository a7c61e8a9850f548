// Package kernel is a model of the machine's kernel: sockets, listening sockets, readiness,
// descriptors and time, as event loops see them, in one process and in virtual time. Loops run in
// it unchanged through reactor.Kernel. The clients and services at the other ends of their sockets
// use Endpoint.
//
// Everything that a real kernel leaves open is drawn: how long bytes travel and in which pieces
// they arrive, which sockets become ready first, when a loop gets the processor, which calls fail.
// The same seed draws the same history.
//
// It must not know HTTP, nor what runs on its loops. A test compares it with the real kernel by
// running the same scripts on both.
package kernel
