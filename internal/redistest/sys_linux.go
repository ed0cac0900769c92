package redistest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// dieWithParent has the kernel kill the server when the test binary ends, however it ends: a timeout of the test run kills
// the binary without running any cleanup. (Strictly it is the thread that started the server. Go ends a thread only when
// a goroutine exits that is locked to it.)
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stopped reports whether the process has taken its SIGSTOP: the signal is sent at once but acted on a little later.
func stopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := bytes.Cut(text, []byte(") "))
	return bytes.HasPrefix(rest, []byte("T"))
}
