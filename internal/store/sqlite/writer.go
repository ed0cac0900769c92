package sqlite

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// groupMax bounds a transaction, and so how long the last of a group waits for the first.
const groupMax = 256

// op is one change that waits for its turn in the writer.
type op struct {
	run     func(t *tx) error
	durable bool
	state   atomic.Int32 // opQueued, then opTaken by the writer or opLeft by the caller
	done    chan error
}

const (
	opQueued = iota
	opTaken
	opLeft
)

// do runs a change in the next transaction. A durable one returns after fsync; the others share whatever comes: kill -9
// loses none of them, a power cut may lose the last. A caller that gives up while the change waits is sure that it will
// not happen.
func (s *Store) do(ctx context.Context, durable bool, run func(t *tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.isClosed() {
		return store.ErrClosed
	}
	o := &op{run: run, durable: durable, done: make(chan error, 1)}
	select {
	case s.ops <- o:
	case <-s.stopped:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-o.done:
		return err
	case <-s.stopped:
		// The writer answers everything that it took before it ends.
		select {
		case err := <-o.done:
			return err
		default:
			return store.ErrClosed
		}
	case <-ctx.Done():
		if o.state.CompareAndSwap(opQueued, opLeft) {
			return ctx.Err()
		}
		return <-o.done // under way: the answer is a matter of one transaction
	}
}

// between runs f in the writer between two transactions.
func (s *Store) between(f func() error) error {
	done := make(chan error, 1)
	select {
	case s.gaps <- func() { done <- f() }:
		return <-done
	case <-s.stopped:
		return store.ErrClosed
	}
}

// writer owns the only connection that writes.
type writer struct {
	s    *Store
	conn *sqlite.Conn
	// relaxed mirrors PRAGMA synchronous: without fsync at commit.
	relaxed  bool
	nextSeq  int64
	lastTime int64
	group    []*op

	// The walk over the keys: the last one looked at, and when the next walk may start.
	sweepAt int64
	swept   int64
}

func (w *writer) run() {
	defer close(w.s.stopped)
	for {
		select {
		case o := <-w.s.ops:
			w.commitGroup(o)
		case f := <-w.s.gaps:
			f()
		case <-w.s.stop:
			for { // what was queued before Close still happens
				select {
				case o := <-w.s.ops:
					w.commitGroup(o)
				default:
					return
				}
			}
		}
	}
}

// commitGroup runs first and all that has queued up behind it in one transaction.
func (w *writer) commitGroup(first *op) {
	w.letThemCome()
	w.group = w.group[:0]
	for o, more := first, true; more; {
		if o.state.CompareAndSwap(opQueued, opTaken) {
			w.group = append(w.group, o)
		}
		if len(w.group) == groupMax {
			break
		}
		select {
		case o = <-w.s.ops:
		default:
			more = false
		}
	}
	if len(w.group) == 0 {
		return
	}
	answers, err := w.transact(w.group)
	if err == nil {
		for i, o := range w.group {
			o.done <- answers[i]
		}
		return
	}
	// One change that cannot be written must not fail the others: each gets a transaction of its own.
	for i := range w.group {
		answers, err := w.transact(w.group[i : i+1])
		if err == nil {
			err = answers[0]
		}
		w.group[i].done <- kindOf(err)
	}
}

// letThemCome gives way to whoever is about to queue something, for as long as each turn brings more. Where nobody else
// has anything to do it returns at once, so a lone request waits for nothing; under load the groups get larger.
func (w *writer) letThemCome() {
	for before := -1; len(w.s.ops) > before && len(w.s.ops) < groupMax; {
		before = len(w.s.ops)
		runtime.Gosched()
	}
}

// refusal is an answer that an op found before it wrote anything; the rest of the transaction goes on.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// transact runs ops in one transaction. The error is for all of them and nothing was changed; else each has its answer.
func (w *writer) transact(ops []*op) (answers []error, err error) {
	relaxed := true
	for _, o := range ops {
		relaxed = relaxed && !o.durable
	}
	if err := w.setRelaxed(relaxed); err != nil {
		return nil, err
	}
	if err := exec(w.conn, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	t := &tx{w: w, conn: w.conn, now: w.s.clock(), elapsed: w.s.elapsed(), seq: w.nextSeq, lastTime: w.lastTime}
	answers = make([]error, len(ops))
	for i, o := range ops {
		if err := o.run(t); err != nil {
			var no refusal
			if !errors.As(err, &no) {
				return nil, w.rollback(err)
			}
			answers[i] = no.error
		}
	}
	if err := t.writeLanes(); err != nil {
		return nil, w.rollback(err)
	}
	if err := exec(w.conn, "COMMIT"); err != nil {
		return nil, w.rollback(err)
	}
	w.nextSeq, w.lastTime = t.seq, t.lastTime
	t.apply()
	return answers, nil
}

func (w *writer) rollback(cause error) error {
	if !w.conn.AutocommitEnabled() { // some errors have rolled back already
		if err := exec(w.conn, "ROLLBACK"); err != nil {
			return errors.Join(cause, err)
		}
	}
	return cause
}

func (w *writer) setRelaxed(relaxed bool) error {
	if relaxed == w.relaxed {
		return nil
	}
	q := "PRAGMA synchronous = FULL"
	if relaxed {
		q = "PRAGMA synchronous = NORMAL"
	}
	if err := sqlitex.ExecuteTransient(w.conn, q, nil); err != nil {
		return err
	}
	w.relaxed = relaxed
	return nil
}

// tx is a transaction under way. What it changes in memory waits in it until the commit.
type tx struct {
	w        *writer
	conn     *sqlite.Conn
	now      int64
	elapsed  int64
	seq      int64
	lastTime int64

	deltas  map[*lane]*[7]int64
	created []*lane
	noted   map[*lane]int64
	leased  []*lease
	freed   []event.ID
	wake    bool
}

func (t *tx) exec(q string, args ...any) error { return exec(t.conn, q, args...) }

func (t *tx) query(q string, row func(r *sqlite.Stmt) error, args ...any) error {
	return query(t.conn, q, row, args...)
}

// stamp gives a time that no other event or job has, so that the order by time is the order by seq.
func (t *tx) stamp() int64 {
	t.lastTime = max(t.now, t.lastTime+1)
	return t.lastTime
}

// lane finds or makes the lane. A lane is made before anything depends on it, so a later refusal leaves it empty.
func (t *tx) lane(id store.LaneID) (*lane, error) {
	if l := t.w.s.byName[id]; l != nil {
		return l, nil
	}
	for _, l := range t.created {
		if l.LaneID == id {
			return l, nil
		}
	}
	l := &lane{LaneID: id, id: int64(len(t.w.s.lanes) + len(t.created) + 1), noted: t.now}
	t.created = append(t.created, l)
	return l, t.exec("INSERT INTO lanes(id, queue, endpoint, noted) VALUES(?, ?, ?, ?)", l.id, id.Queue, id.Endpoint, t.now)
}

// laneAt finds a lane by its id, those of this transaction too.
func (t *tx) laneAt(id int64) *lane {
	if old := int64(len(t.w.s.lanes)); id > old {
		return t.created[id-old-1]
	}
	return t.w.s.lanes[id-1]
}

// count moves n jobs of a lane into a state; negative n out of it.
func (t *tx) count(l *lane, state event.State, n int64) {
	if t.deltas == nil {
		t.deltas = make(map[*lane]*[7]int64, 1)
	}
	d := t.deltas[l]
	if d == nil {
		d = new([7]int64)
		t.deltas[l] = d
	}
	d[counted(state)] += n
}

// unfinished counts the pending and running jobs of a queue as of now in this transaction.
func (t *tx) unfinished(queue string) int64 {
	n := int64(0)
	for _, l := range t.w.s.lanes {
		if l.Queue == queue {
			n += l.counts[event.Pending]
		}
	}
	for l, d := range t.deltas {
		if l.Queue == queue {
			n += d[event.Pending]
		}
	}
	return n
}

// unfinishedIn is the same for a lane.
func (t *tx) unfinishedIn(l *lane) int64 {
	n := l.counts[event.Pending]
	if d := t.deltas[l]; d != nil {
		n += d[event.Pending]
	}
	return n
}

// countedStates are those with a column in lanes: running counts as pending there.
var countedStates = []event.State{event.Pending, event.Delivered, event.Dead, event.Cancelled, event.Replayed, event.Observed}

func counted(s event.State) event.State {
	if s == event.Running {
		return event.Pending
	}
	return s
}

func (t *tx) writeLanes() error {
	for l, d := range t.deltas {
		c := l.counts
		for i := range c {
			c[i] += d[i]
		}
		err := t.exec("UPDATE lanes SET n0=?, n2=?, n3=?, n4=?, n5=?, n6=? WHERE id=?", c[event.Pending], c[event.Delivered],
			c[event.Dead], c[event.Cancelled], c[event.Replayed], c[event.Observed], l.id)
		if err != nil {
			return err
		}
	}
	return nil
}

// apply changes the memory after the commit.
func (t *tx) apply() {
	s := t.w.s
	s.mu.Lock()
	for _, l := range t.created {
		s.lanes = append(s.lanes, l)
		s.byName[l.LaneID] = l
	}
	for l, d := range t.deltas {
		for i := range d {
			l.counts[i] += d[i]
		}
	}
	for l, at := range t.noted {
		l.noted = at
	}
	for _, id := range t.freed { // before the new leases: one transaction may end a life and begin the next
		delete(s.leases, id)
	}
	for _, ls := range t.leased {
		s.leases[ls.job] = ls
	}
	s.mu.Unlock()
	if t.wake {
		s.signal()
	}
}
