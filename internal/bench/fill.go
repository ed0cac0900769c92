package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// fillKeys makes a store remember n keys of events whose bodies retention has taken, as it does after a busy week. Caddy
// must not be running on it.
func fillKeys(ctx context.Context, s store.Store, n, pruners int) error {
	const writers = 512 // enough to make large groups, each of which is one fsync or one exchange with a server
	var next atomic.Int64
	err := parallel(writers, func() error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			if err := acceptKey(ctx, s, i); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	return parallel(pruners, func() error {
		for more := true; more; {
			var err error
			if more, err = s.Prune(ctx, store.Retention{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// parallel runs f n times at once.
func parallel(n int, f func() error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// acceptKey stores one finished event; a retention of nothing then leaves its key only.
func acceptKey(ctx context.Context, s store.Store, i int) error {
	sum := sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24), 'f'})
	_, err := s.Accept(ctx, store.Accept{
		Event: event.Event{ID: uuid.Must(uuid.NewV7()), Source: "bench", Verified: true},
		Keys:  []store.Key{{Value: hex.EncodeToString(sum[:]), TTL: 7 * 24 * time.Hour}},
		Jobs:  []store.NewJob{{ID: uuid.Must(uuid.NewV7()), Queue: "webhooks", Endpoint: "bench/default", Observed: true}},
	})
	return err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
