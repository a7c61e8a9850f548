package gateway

import "syscall"

// lowest is the nice value of a thread that takes only what all others leave.
const lowest = 19

// giveWay gives the calling thread the lowest priority. Where that is not allowed it is as any
// other: what it does takes no longer for that.
func giveWay() { syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), lowest) }
