package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidateBesideTheRunningServerSucceeds(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	conf := c.caddyfile("", simpleSite(up))
	c.start(conf)
	accepted(t, c.site+"/hooks", hook(1))
	text, err := c.command("validate", "--config", c.dir+"/Caddyfile", "--adapter", "caddyfile").CombinedOutput()
	if err != nil {
		t.Errorf("validate: %v\n%s", err, text)
	}
	accepted(t, c.site+"/hooks", hook(2))
}

func TestValidateLeavesNoStoreBehind(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	path := c.write("Caddyfile", c.caddyfile("", simpleSite(up)))
	if text, err := c.command("validate", "--config", path, "--adapter", "caddyfile").CombinedOutput(); err != nil {
		t.Fatalf("validate: %v\n%s", err, text)
	}
	if _, err := os.Stat(c.storePath()); err == nil {
		t.Error("validate created a store")
	}
}

func TestASecondServerOnTheSameStoreIsTurnedAwayClearly(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	first, second := newInstance(t), newInstance(t)
	store := "\t\tstore sqlite " + first.dir + "/anvil.db"
	first.start(first.caddyfile(store, simpleSite(up)))
	if err := second.tryStart(second.caddyfile(store, simpleSite(up))); err == nil {
		t.Fatal("a second server opened the same store")
	}
	second.logged(first.dir+"/anvil.db", "locked")
	first.waitState(accepted(t, first.site+"/hooks", hook(1)), "delivered", patience)
}

func TestAStoreThatCannotBeOpenedIsAClearError(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	cases := map[string]struct {
		prepare func(t *testing.T, dir string) (path string)
		says    []string
	}{
		"a folder that is a file": {func(t *testing.T, dir string) string {
			must(t, os.WriteFile(dir+"/file", []byte("x"), 0o600))
			return dir + "/file/anvil.db"
		}, []string{"/file", "opening store"}},
		"a file that is no database": {func(t *testing.T, dir string) string {
			must(t, os.WriteFile(dir+"/anvil.db", []byte(strings.Repeat("this is no database ", 500)), 0o600))
			return dir + "/anvil.db"
		}, []string{"/anvil.db", "opening store"}},
		"a damaged database": {func(t *testing.T, dir string) string {
			head := append([]byte("SQLite format 3\x00"), make([]byte, 4080)...)
			must(t, os.WriteFile(dir+"/anvil.db", append(head, []byte(strings.Repeat("x", 8192))...), 0o600))
			return dir + "/anvil.db"
		}, []string{"/anvil.db", "opening store"}},
		"a folder": {func(t *testing.T, dir string) string {
			must(t, os.Mkdir(dir+"/anvil.db", 0o700))
			return dir + "/anvil.db"
		}, []string{"/anvil.db", "is not a file"}},
	}
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newInstance(t)
			path := k.prepare(t, c.dir)
			if err := c.tryStart(c.caddyfile("\t\tstore sqlite "+path, simpleSite(up))); err == nil {
				t.Fatal("the server started")
			}
			c.logged(k.says...)
		})
	}
}

func TestAnUnwritableFolderIsAClearError(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere; the folder that is a file covers the message")
	}
	up := newUpstream(t, nil)
	c := newInstance(t)
	dir := filepath.Join(c.dir, "sealed")
	must(t, os.Mkdir(dir, 0o500))
	if err := c.tryStart(c.caddyfile("\t\tstore sqlite "+dir+"/anvil.db", simpleSite(up))); err == nil {
		t.Fatal("the server started")
	}
	c.logged(dir, "opening store")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMisspeltAndContradictoryConfigurationIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	c := newInstance(t)
	for name, site := range map[string]string{
		"a misspelt verify":   "\tanvil demo {\n\t\tverfy hmac \"sixteen characters\"\n\t}",
		"a misspelt option":   "\tanvil demo {\n\t\tverify hmac \"sixteen characters\" {\n\t\t\tprefx x\n\t\t}\n\t}",
		"a missing argument":  "\tanvil demo {\n\t\tverify\n\t}",
		"no secret":           "\tanvil demo {\n\t\tverify hmac\n\t}",
		"a repeated scalar":   "\tanvil demo {\n\t\tverify none\n\t\tmax_body 1KiB\n\t\tmax_body 2KiB\n\t}",
		"no way to verify":    "\tanvil demo {\n\t\tdeliver :3000\n\t}",
		"a path for a source": "\tanvil hooks/github {\n\t\tverify none\n\t}",
		"a zero delay":        "\tanvil demo {\n\t\tverify none\n\t\tdeliver :3000 {\n\t\t\tretry 0s\n\t\t}\n\t}",
		"a negative delay":    "\tanvil demo {\n\t\tverify none\n\t\tdeliver :3000 {\n\t\t\tretry -1s\n\t\t}\n\t}",
		"an id of nobody":     "\tanvil demo {\n\t\tverify none\n\t\tdedupe event_id\n\t}",
	} {
		path := c.write("Caddyfile", c.caddyfile("", site))
		text, err := c.command("validate", "--config", path, "--adapter", "caddyfile").CombinedOutput()
		if err == nil {
			t.Errorf("%s was taken", name)
			continue
		}
		last := strings.Split(strings.TrimSpace(string(text)), "\n")
		t.Logf("%s: %s", name, last[len(last)-1])
		if !strings.Contains(string(text), "Caddyfile:") && name != "no way to verify" {
			t.Errorf("%s: no file and line in %s", name, last[len(last)-1])
		}
	}
	json := c.write("config.json", `{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:1"],"routes":[{"handle":[{"handler":"anvil","source":"x","verfy":[]}]}]}}}}}`)
	if text, err := c.command("validate", "--config", json).CombinedOutput(); err == nil {
		t.Errorf("an unknown field in JSON was taken: %s", text)
	}
}
