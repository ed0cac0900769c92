package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-anvil/anvil/internal/store"
)

const (
	// flights is how many pipelines may be under way at once: while Redis works on one, the next is written and the last
	// is read. More made groups smaller and measured no faster.
	flights = 2
	// groupMax bounds a pipeline, so that the first caller in it need not wait for thousands.
	groupMax = 128
	// acceptsAtOnce bounds how long one script of accepts holds up everybody else.
	acceptsAtOnce = 32
	// argsAtOnce is the size of an event, with very many endpoints, that goes alone.
	argsAtOnce = 200
	// largeFrom is the payload, in bytes, from which a call goes alone and may take largeTimeout: in a group it would hold
	// up the small ones.
	largeFrom    = 1 << 20
	largeTimeout = 10 * time.Second
)

// op is one call of a script. Calls of the accept script that are sent together become one.
type op struct {
	script *script
	// keys follow those that the script always uses, args what all its calls have in common.
	keys []string
	args []any
	// durable calls wait for the replicas that the options ask for, large ones take long to send.
	durable, large bool
	// gone is closed when nobody waits for the answer any more.
	gone <-chan struct{}

	reply any
	err   error
	done  chan struct{}
}

// batcher sends the calls that come together in one pipeline. A lone call leaves at once: there is no timer.
type batcher struct {
	send func(ctx context.Context, group []*op)
	most int // calls in a group

	mu      sync.Mutex
	waiting []*op
	flying  int
	closed  bool
	idle    sync.Cond
}

func newBatcher(most int, send func(context.Context, []*op)) *batcher {
	b := &batcher{send: send, most: most}
	b.idle.L = &b.mu
	return b
}

func (b *batcher) add(o *op) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return store.ErrClosed
	}
	b.waiting = append(b.waiting, o)
	if b.flying < flights {
		b.flying++
		go b.fly()
	}
	return nil
}

func (b *batcher) fly() {
	for {
		group := b.take()
		if group == nil {
			return
		}
		b.send(context.Background(), group) // of no caller: each of them may leave
		for _, o := range group {
			close(o.done)
		}
	}
}

// take is nil when the flight is over.
func (b *batcher) take() []*op {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.waiting) > 0 {
		n := min(len(b.waiting), b.most)
		group := make([]*op, 0, n)
		for _, o := range b.waiting[:n] {
			select {
			case <-o.gone:
				// While Redis hung its caller was told to try again. Doing it now would surprise everybody.
				close(o.done)
			default:
				group = append(group, o)
			}
		}
		b.waiting = b.waiting[n:]
		if len(group) > 0 {
			return group
		}
	}
	b.waiting = nil // and with it the array that a burst has made large
	b.flying--
	if b.flying == 0 {
		b.idle.Broadcast()
	}
	return nil
}

// close refuses new calls and waits for those under way.
func (b *batcher) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for b.flying > 0 {
		b.idle.Wait()
	}
}

// run calls a script. keys come after those that the script always uses, args after the clock's offset.
func (s *Store) run(ctx context.Context, sc *script, keys []string, args ...any) (any, error) {
	return s.call(ctx, &op{script: sc}, keys, args)
}

// runDurable is run for what is acknowledged to somebody.
func (s *Store) runDurable(ctx context.Context, sc *script, keys []string, args ...any) (any, error) {
	return s.call(ctx, &op{script: sc, durable: s.o.Replicas > 0}, keys, args)
}

// ask is run for what only reads: outside the groups, so that a large answer holds up nobody.
func (s *Store) ask(ctx context.Context, sc *script, keys []string, args ...any) (reply any, err error) {
	err = s.read(ctx, sc.name, func(ctx context.Context) error {
		o := &op{script: sc, keys: keys, args: args}
		s.sendGroup(ctx, []*op{o})
		reply = o.reply
		return o.err
	})
	return reply, err
}

// address makes keys and arguments of one call for the ops, which are several for accepts only.
func (s *Store) address(ops []*op) (keys []string, args []any) {
	sc, nk, na := ops[0].script, 0, 0
	for _, o := range ops {
		nk, na = nk+len(o.keys), na+len(o.args)
	}
	keys, args = make([]string, 0, len(sc.keys)+nk), make([]any, 0, 5+na)
	for _, name := range sc.keys {
		keys = append(keys, s.keys.of(name))
	}
	args = append(args, s.offset.Load())
	if sc == scriptAccept {
		args = append(args, s.name, digit(s.full())+digit(s.o.Replicas > 0), s.keys.of("wake"), len(ops))
	}
	for _, o := range ops {
		keys, args = append(keys, o.keys...), append(args, o.args...)
	}
	return keys, args
}

func (s *Store) call(ctx context.Context, o *op, keys []string, args []any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if old := s.server.tooOld.Load(); old != nil {
		return nil, s.fault(o.script.name, *old)
	}
	// The wait is bounded here as well, since a call may stand in line behind groups that wait for a silent server.
	limited, cancel := context.WithTimeout(ctx, s.limit(o))
	defer cancel()
	o.gone, o.done, o.keys, o.args = limited.Done(), make(chan struct{}), keys, args
	batch := s.batch
	switch {
	case o.large:
		batch = s.large
	case o.durable:
		batch = s.durable
	}
	if err := batch.add(o); err != nil { //nolint:contextcheck // a group is of no one caller
		return nil, err
	}
	select {
	case <-o.done:
		if o.reply != nil || o.err != nil {
			return o.reply, s.fault(o.script.name, o.err)
		}
	case <-limited.Done():
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, s.fault(o.script.name, errSilent)
}

func (s *Store) limit(o *op) time.Duration {
	if o.large {
		return max(largeTimeout, s.o.AcceptTimeout)
	}
	return s.o.AcceptTimeout
}

// sendGroup sends a group by the scripts' hashes, and once more by their texts what Redis did not know. Accepts whose common
// call failed are sent once more each for itself: one of them may be the reason, and all may be sent twice.
func (s *Store) sendGroup(ctx context.Context, group []*op) {
	ctx, cancel := context.WithTimeout(ctx, s.limit(group[0]))
	defer cancel()
	calls := together(group)
	unknown, failed := s.pipeline(ctx, calls, false)
	if len(unknown) > 0 {
		_, more := s.pipeline(ctx, unknown, true)
		failed = append(failed, more...)
	}
	var apart [][]*op
	for _, ops := range failed {
		for i := range ops {
			apart = append(apart, ops[i:i+1])
		}
	}
	if len(apart) > 0 {
		s.pipeline(ctx, apart, true)
	}
}

// together puts accepts into calls of up to acceptsAtOnce, and every other op into a call of its own.
func together(group []*op) [][]*op {
	calls := make([][]*op, 0, len(group))
	accepts := -1 // the call that still takes some
	for i, o := range group {
		if o.script != scriptAccept {
			calls = append(calls, group[i:i+1])
			continue
		}
		if accepts < 0 || len(calls[accepts]) == acceptsAtOnce || len(o.args) > argsAtOnce {
			accepts = len(calls)
			calls = append(calls, nil)
		}
		calls[accepts] = append(calls[accepts], o)
	}
	return calls
}

// pipeline fills in the answers and returns the calls whose script Redis did not know, and those of several ops that failed.
func (s *Store) pipeline(ctx context.Context, calls [][]*op, byText bool) (unknown, failed [][]*op) {
	durable := calls[0][0].durable // they are not mixed
	p, err := s.pipeliner(ctx, durable)
	if err != nil {
		for _, ops := range calls {
			answer(ops, nil, err)
		}
		return nil, nil
	}
	commands := make([]*redis.Cmd, len(calls))
	for i, ops := range calls {
		keys, args := s.address(ops)
		if byText {
			commands[i] = p.Eval(ctx, ops[0].script.text, keys, args...)
		} else {
			commands[i] = p.EvalSha(ctx, ops[0].script.sha, keys, args...)
		}
	}
	var wait *redis.Cmd
	if durable {
		// The server counts replicas that have this connection's newest write, so it must follow in the same pipeline.
		wait = p.Do(ctx, "wait", s.o.Replicas, (s.o.AcceptTimeout / 2).Milliseconds())
	}
	_, execErr := p.Exec(ctx)
	for i, ops := range calls {
		reply, err := commands[i].Result()
		switch {
		case errors.Is(err, redis.Nil):
			reply, err = none{}, nil
		case err == nil && reply == nil:
			err = cmp.Or(execErr, errSilent) // the library did not get to it
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			unknown = append(unknown, ops)
		case err != nil && len(ops) > 1 && isReply(err):
			failed = append(failed, ops)
		case err == nil && durable:
			err = s.replicated(wait)
		}
		answer(ops, reply, err)
	}
	return unknown, failed
}

// isReply tells an error of the script from one of the connection.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// answer gives each op its own: a call of accepts has a list of answers.
func answer(ops []*op, reply any, err error) {
	if ops[0].script != scriptAccept || err != nil {
		for _, o := range ops {
			o.reply, o.err = reply, err
		}
		return
	}
	answers, _ := reply.([]any)
	for i, o := range ops {
		o.reply, o.err = nil, nil
		if i < len(answers) {
			o.reply = answers[i]
		}
		if o.reply == nil {
			o.err = errReply
		}
	}
}

// pipeliner is of the one node that holds our slot when it has to be told to wait for its replicas: a command without a
// key would otherwise go to any.
func (s *Store) pipeliner(ctx context.Context, durable bool) (redis.Pipeliner, error) {
	if !durable {
		return s.client.Pipeline(), nil
	}
	node, err := s.node(ctx)
	if err != nil {
		return nil, err
	}
	return node.Pipeline(), nil
}

// replicated tells whether enough replicas have what was written.
func (s *Store) replicated(wait *redis.Cmd) error {
	n, err := wait.Int()
	if err == nil && n < s.o.Replicas {
		err = fmt.Errorf("%d replicas have it in time, %d are asked for", n, s.o.Replicas)
	}
	return err
}

// none is the answer of a script that has nothing to say.
type none struct{}

var errSilent = errors.New("no answer in time")
