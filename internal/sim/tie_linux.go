package sim

import (
	"os/exec"
	"syscall"
)

// tie makes the kernel kill a process with the thread that starts it (prctl(2), PR_SET_PDEATHSIG).
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
