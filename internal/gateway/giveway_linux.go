package gateway

import "syscall"

// lowest is the nice value of a thread that takes only what all others leave.
const lowest = 19

// giveWay gives the calling thread the lowest priority. If that is not allowed, the thread keeps
// its priority.
func giveWay() { syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), lowest) }
