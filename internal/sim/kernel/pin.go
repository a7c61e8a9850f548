package kernel

import _ "unsafe" // for go:linkname

// pin keeps the calling goroutine on its processor until unpin: with GOMAXPROCS(1) no other
// goroutine runs meanwhile. Without it, the runtime takes the processor from a goroutine that has
// had it for 10 ms of real time, which any event can take on a busy machine. The goroutine woken by
// the event then ran in the middle of it, and one seed made two histories. Pinned code must not
// block or make system calls: the runtime ends the process ("schedule: holding locks").
//
//go:linkname pin runtime.procPin
func pin() int

//go:linkname unpin runtime.procUnpin
func unpin()
