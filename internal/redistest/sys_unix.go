//go:build unix && !linux

package redistest

import "syscall"

// dieWithParent has no counterpart here: servers are left behind when the test binary dies without its cleanups.
func dieWithParent() *syscall.SysProcAttr { return nil }

// stopped takes the signal as acted on, for want of a portable way to see it.
func stopped(int) bool { return true }
