package redis_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

func TestAServerThatIsTooOldIsRefusedWithTheVersionItNeeds(t *testing.T) {
	for info, refused := range map[string]bool{
		"redis_version:2.8.24":  true,
		"redis_version:5.0.14":  true,
		"redis_version:6.0.16":  true,
		"redis_version:6.2.0":   false,
		"redis_version:7.0.15":  false,
		"redis_version:10.0.1":  false,
		"redis_version:next":    false,
		"valkey_version:1.0.0":  false,
		"":                      false,
		"server_name:another":   false,
		"redis_version:6.2-rc1": false,
	} {
		t.Run(info, func(t *testing.T) {
			noLeaks(t)
			o := redis.Options{Addr: startImpostor(t, info).addr, Prefix: "anvil"}
			if !refused {
				must(t, open(t, o).Check(t.Context()))
				return
			}
			_, version, _ := strings.Cut(info, ":")
			if err := refusal(t, o); !strings.Contains(err.Error(), "version "+version+"; upgrade it to 6.2 or newer") {
				t.Errorf("opening: %v, want both versions", err)
			}
		})
	}
}

func TestAServerThatTurnsOutTooOldLaterIsRefusedUntilItIsUpgraded(t *testing.T) {
	noLeaks(t)
	server := startImpostor(t, "redis_version:6.0.16")
	proxy := redistest.NewProxy(t, server.addr)
	proxy.Freeze()
	s := open(t, redis.Options{Addr: proxy.Addr(), Prefix: "anvil"})
	proxy.Thaw()
	wait(t, func() bool {
		err := s.Check(t.Context())
		return errors.Is(err, store.ErrUnavailable) && strings.Contains(err.Error(), "upgrade it to 6.2 or newer")
	})

	server.info.Store("redis_version:6.2.0")
	proxy.Cut() // as an upgrade does
	wait(t, func() bool { return s.Check(t.Context()) == nil })
}

// impostor says that it is any version. It carries nothing out and answers scripts with 1.
type impostor struct {
	addr string
	info atomic.Value
}

func startImpostor(t *testing.T, info string) *impostor {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	i := &impostor{addr: l.Addr().String()}
	i.info.Store(info)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go i.serve(conn)
		}
	}()
	return i
}

func (i *impostor) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		words, err := readCommand(r)
		if err != nil {
			return
		}
		answer := "-ERR unknown command\r\n"
		switch words[0] {
		case "hget":
			answer = "$-1\r\n"
		case "info":
			info := fmt.Sprint(i.info.Load())
			answer = fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
		case "evalsha":
			answer = ":1\r\n"
		case "subscribe":
			answer = fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(words[1]), words[1])
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// readCommand reads an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	var n int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		var size int
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		word := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:size])
	}
	return words, nil
}
