package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a tmpfs of that size, or skips the test, see lacks.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		lacks(t, "ANVIL_NEED_DISK", "a small disk is a tmpfs, which only root on Linux can mount")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	must(t, os.Mkdir(dir, 0o700))
	if text, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		lacks(t, "ANVIL_NEED_DISK", "mounting a tmpfs is not allowed here: %v %s", err, text)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir
}

// fill leaves no more than rest bytes free.
func fill(t *testing.T, dir string, rest int64) (path string) {
	t.Helper()
	var fs syscall.Statfs_t
	must(t, syscall.Statfs(dir, &fs))
	path = filepath.Join(dir, "ballast")
	if n := int64(fs.Bavail)*fs.Bsize - rest; n > 0 {
		must(t, os.WriteFile(path, make([]byte, n), 0o600))
	}
	return path
}

// diskFull fills the disk under a server up to rest bytes. With nothing left at all a start may fail, clearly; above that it
// must succeed.
func diskFull(t *testing.T, dir string, rest int64, conf string) {
	c := newInstance(t)
	up := newUpstream(t, nil)
	conf = c.caddyfile(conf, simpleSite(up)+"\n\tanvil_health /ready")
	c.start(conf)
	acked := map[string]bool{}
	for i := range 20 {
		acked[accepted(t, c.site+"/hooks", hook(i))] = true
	}
	c.settled(patience)
	ballast := fill(t, dir, rest)
	pad := strings.Repeat("p", 8<<10)
	var refusal response
	n := 100
	next := func() response {
		n++
		return post(t, c.site+"/hooks", fmt.Appendf(nil, `{"id":"evt_%d","pad":"%s"}`, n, pad))
	}
	waitFor(t, patience, "an event being refused on the full disk", func() bool {
		r := next()
		if r.status == http.StatusAccepted {
			acked[r.JobID] = true
			return false
		}
		refusal = r
		return true
	})
	if refusal.status != http.StatusServiceUnavailable || refusal.Error != "store_full" || refusal.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, Retry-After %q; want 503 store_full with a time", refusal.status, refusal.body, refusal.header.Get("Retry-After"))
	}
	if strings.Contains(string(refusal.body), dir) {
		t.Errorf("the answer names a path: %s", refusal.body)
	}
	c.kill9()
	switch err := c.tryStart(conf); {
	case err != nil && rest == 0:
		c.logged("opening store "+dir+"/anvil.db", "full")
		must(t, os.Remove(ballast))
		c.start(conf)
	case err != nil:
		t.Fatalf("starting on the full disk: %v\n%s", err, c.log.tail(10))
	default:
		waitFor(t, patience, "the full disk being noticed after a restart", func() bool {
			r := next()
			if r.status == http.StatusAccepted {
				acked[r.JobID] = true
			}
			return r.status == http.StatusServiceUnavailable && r.Error == "store_full"
		})
		if rest > 0 { // with nothing left at all a small write may still fit where a large one did not
			r, err := sendVia(client, http.MethodGet, c.site+"/ready", nil)
			if err != nil || r.status != http.StatusServiceUnavailable {
				t.Errorf("readiness below the floor: %d %s %v, want 503", r.status, r.body, err)
			}
		}
		must(t, os.Remove(ballast))
	}
	waitFor(t, patience, "events being accepted when space is back", func() bool {
		r := next()
		if r.status == http.StatusAccepted {
			acked[r.JobID] = true
			return true
		}
		return false
	})
	c.settled(patience)
	hits := up.jobHits()
	for id := range acked {
		if hits[id] == 0 {
			t.Errorf("job %s was acknowledged and never arrived", id)
		}
	}
	if states, _ := c.stats(); states["delivered"] < len(acked) || states["dead"] != 0 {
		t.Errorf("stats are %v for %d acknowledged events", states, len(acked))
	}
}

func TestAFullDiskRefusesAndRecovers(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "24m")
	diskFull(t, dir, 0, "\t\tstore sqlite "+dir+"/anvil.db {\n\t\t\tmin_free 0\n\t\t}")
}

func TestBelowTheFloorOfFreeSpaceEventsAreRefused(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "40m")
	diskFull(t, dir, 4<<20, "\t\tstore sqlite "+dir+"/anvil.db {\n\t\t\tmin_free 8MiB\n\t\t}")
}

func TestTheServerRecoversByItselfWhenSpaceIsBack(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "24m")
	up := newUpstream(t, nil)
	c := newInstance(t)
	c.start(c.caddyfile("\t\tstore sqlite "+dir+"/anvil.db {\n\t\t\tmin_free 0\n\t\t}", simpleSite(up)+"\n\tanvil_health /ready"))
	c.waitState(accepted(t, c.site+"/hooks", hook(0)), "delivered", patience)
	ballast := fill(t, dir, 0)
	n := 0
	post8k := func() response {
		n++
		return post(t, c.site+"/hooks", fmt.Appendf(nil, `{"id":"evt_%d","pad":"%s"}`, n, strings.Repeat("p", 8<<10)))
	}
	acked := []string{}
	waitFor(t, patience, "an event being refused on the full disk", func() bool {
		r := post8k()
		if r.status == http.StatusAccepted {
			acked = append(acked, r.JobID)
		}
		return r.status == http.StatusServiceUnavailable && r.Error == "store_full"
	})
	must(t, os.Remove(ballast))
	waitFor(t, patience, "events being accepted when space is back", func() bool { return post8k().status == http.StatusAccepted })
	waitFor(t, patience, "readiness turning to 200", func() bool {
		r, err := sendVia(client, http.MethodGet, c.site+"/ready", nil)
		return err == nil && r.status == http.StatusOK
	})
	c.settled(patience)
	hits := up.jobHits()
	for _, id := range acked {
		if hits[id] == 0 {
			t.Errorf("job %s was acknowledged and never arrived", id)
		}
	}
}

func TestASecondBacklogUsesTheSpaceOfTheFirst(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	conf := func(workers string) string {
		return c.caddyfile("\t\tworkers "+workers+"\n\t\tqueue webhooks {\n\t\t\tretain delivered 1s\n\t\t}", simpleSite(up))
	}
	c.start(conf("off"))
	const n = 1500
	backlog := func(first int) (bytes int64) {
		c.mustReload(conf("off"))
		for i := range n {
			accepted(t, c.site+"/hooks", fmt.Appendf(nil, `{"id":"evt_%d","pad":"%s"}`, first+i, strings.Repeat("p", 8<<10)))
		}
		c.mustReload(conf("on"))
		up.wait(first+n, 2*time.Minute)
		waitFor(t, 2*time.Minute, "retention taking the backlog", func() bool {
			states, _ := c.stats()
			return states["pending"]+states["running"]+states["delivered"] == 0
		})
		c.term() // moves the log into the file
		info, err := os.Stat(c.storePath())
		must(t, err)
		c.start(conf("off"))
		return info.Size()
	}
	first := backlog(0)
	second := backlog(n)
	if first < n*8<<10 || second > first+first/5 {
		t.Errorf("the file has %d bytes after the first backlog and %d after an equal second one", first, second)
	}
}
