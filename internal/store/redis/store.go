// Package redis keeps events and jobs in Redis or Valkey, so that several processes share one queue. Every transition is
// one Lua script: Redis runs them one after the other, so each is atomic, and its clock is the only one that decides.
package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/store"
)

// Store implements store.Store.
type Store struct {
	o      Options
	log    *zap.Logger
	client redis.UniversalClient
	keys   keyspace
	batch  *batcher
	// durable is for calls that wait for replicas. They must hold up nobody else: leases have to be renewed.
	durable *batcher
	large   *batcher
	// name tells our own rings from those of other instances.
	name   string
	wake   chan struct{}
	offset atomic.Int64 // microseconds
	server *server

	queues sync.Map // names of those that have or had jobs, as far as this instance knows
	learnt moment   // when the others' queues were last asked for

	stop   context.CancelFunc
	loops  sync.WaitGroup
	closed atomic.Bool
	once   sync.Once
}

var _ store.Store = (*Store)(nil)

// silence keeps the library from writing to stderr around the log that the operator has configured; whatever it
// complains about comes to us as an error, too.
var silence = sync.OnceFunc(func() { redis.SetLogger(&logging.VoidLogger{}) })

// Open makes a store. A Redis that does not answer is no error: whoever asks for something gets store.ErrUnavailable until
// it does. One that answers and cannot be used (too old, or of a newer layout) is.
func Open(ctx context.Context, o Options) (*Store, error) { //nolint:contextcheck // the store outlives the call that opens it
	silence()
	if o.AcceptTimeout <= 0 {
		o.AcceptTimeout = DefaultAcceptTimeout
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	loops, stop := context.WithCancel(context.Background())
	s := &Store{
		o: o, log: o.Log, client: o.client(), keys: newKeyspace(o.Prefix), name: uuid.NewString(),
		wake: make(chan struct{}, 1), server: newServer(), stop: stop,
	}
	s.batch, s.durable, s.large = newBatcher(groupMax, s.sendGroup), newBatcher(groupMax, s.sendGroup), newBatcher(1, s.sendGroup)
	if err := s.inspect(ctx); errors.Is(err, errUnusable) {
		stop()
		return nil, errors.Join(fmt.Errorf("opening store %s: %w", s.Describe(), err), s.client.Close())
	} else if err != nil {
		s.log.Warn("Redis does not answer; until it does, webhooks are refused with 503 and nothing is delivered",
			zap.String("store", s.Describe()), zap.Error(err))
	}
	s.loops.Go(func() { s.listen(loops) })
	s.loops.Go(func() { s.watch(loops) })
	return s, nil
}

// Wake implements store.Store.
func (s *Store) Wake() <-chan struct{} { return s.wake }

func (s *Store) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Check implements store.Store.
func (s *Store) Check(ctx context.Context) error {
	_, err := s.run(ctx, scriptCheck, nil)
	return err
}

// Describe implements store.Store.
func (s *Store) Describe() string { return s.o.describe() }

// Advance implements store.Store.
func (s *Store) Advance(d time.Duration) { s.offset.Add(d.Microseconds()) }

// Close implements store.Store.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		s.batch.close()
		s.durable.close()
		s.large.close()
		s.closed.Store(true)
		s.stop()
		err = s.client.Close()
		s.loops.Wait()
	})
	return err
}

func (s *Store) isClosed() bool { return s.closed.Load() }

// read guards what goes to Redis without a script.
func (s *Store) read(ctx context.Context, doing string, fn func(ctx context.Context) error) error {
	return s.readWithin(ctx, 2*s.o.AcceptTimeout, doing, fn)
}

func (s *Store) readWithin(ctx context.Context, limit time.Duration, doing string, fn func(ctx context.Context) error) error {
	if s.isClosed() {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := fn(limited)
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrPruned):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return s.fault(doing, err)
}

// know notes a queue that has jobs, so that its ended ones are pruned.
func (s *Store) know(queue string) {
	if _, known := s.queues.Load(queue); !known { // reading takes no lock: accepts come here
		s.queues.Store(queue, true)
	}
}
