//go:build unix

package sqlite

import "golang.org/x/sys/unix"

// diskFree is the space that an ordinary user may still fill.
func diskFree(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec,unconvert // sizes of real disks; types differ by system
}
