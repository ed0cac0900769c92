package redistest

import (
	"errors"
	"os"
	"syscall"
)

// There is no redis-server for Windows. This is for what imports the package and does without it there.

func dieWithParent() *syscall.SysProcAttr { return nil }

func stopped(int) bool { return true }

func freeze(*os.Process) error { return errors.ErrUnsupported }

func thaw(*os.Process) error { return errors.ErrUnsupported }
