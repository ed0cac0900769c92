package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// keyHash is where a key stands: its row, and further bits that tell it from a stranger on the same row. Two keys on
// one row are a matter of 2⁻⁶³ for each pair; the newer one then takes the row.
type keyHash struct {
	h    int64
	rest [16]byte
}

func hashKey(e *event.Event, key string) keyHash {
	sum := store.KeyHash(e, key)
	k := keyHash{h: int64(binary.BigEndian.Uint64(sum[:8]) >> 1)}
	copy(k.rest[:], sum[8:])
	return k
}

// Accept implements store.Store.
func (s *Store) Accept(ctx context.Context, a store.Accept) (store.Accepted, error) {
	// What needs no transaction is done before it, by the many instead of by the one writer.
	hashes := make([]keyHash, len(a.Keys))
	keys := make([]byte, 0, 32*len(a.Keys))
	for i, k := range a.Keys {
		hashes[i] = hashKey(&a.Event, k.Value)
		keys = appendKey(keys, k.Value)
	}

	var answer store.Accepted
	err := s.do(ctx, true, func(t *tx) error {
		var err error
		answer, err = t.accept(&a, hashes, keys)
		return err
	})
	return answer, err
}

func (t *tx) accept(a *store.Accept, hashes []keyHash, keys []byte) (store.Accepted, error) {
	var spent []int64 // events behind expired keys that we are about to overwrite
	for i := range hashes {
		holder, live, err := t.keyHolder(hashes[i])
		if err != nil {
			return store.Accepted{}, err
		}
		if !live {
			if holder != 0 {
				spent = append(spent, holder)
			}
			continue
		}
		first, ok, err := t.accepted("seq = ?", holder)
		if err != nil {
			return store.Accepted{}, err
		}
		if !ok {
			continue
		}
		if first.EventID != a.Event.ID {
			// Sent again after its own key ended and another event took it?
			if own, known, err := t.accepted("id = ?", a.Event.ID); err != nil || known {
				return own, err
			}
			first.Duplicate = true
		}
		return first, nil
	}
	over := t.overBacklog(a.Jobs)
	if over == nil {
		over = t.w.s.disk.check(t.w.s.now())
	}
	if over != nil {
		if first, ok, err := t.accepted("id = ?", a.Event.ID); err != nil || ok {
			return first, err
		}
		return store.Accepted{}, refusal{over}
	}
	ok, err := t.insertEvent(a, keys)
	if err != nil {
		return store.Accepted{}, err
	}
	if !ok {
		first, _, err := t.accepted("id = ?", a.Event.ID)
		return first, err
	}
	for i, k := range a.Keys {
		err := t.exec("INSERT OR REPLACE INTO keys(h, rest, event, expires) VALUES(?, ?, ?, ?)",
			hashes[i].h, hashes[i].rest[:], t.seq, t.lastTime+k.TTL.Microseconds())
		if err != nil {
			return store.Accepted{}, err
		}
	}
	answer := store.Accepted{EventID: a.Event.ID, JobIDs: make([]event.ID, len(a.Jobs))}
	for i := range a.Jobs {
		answer.JobIDs[i] = a.Jobs[i].ID
	}
	if err := t.insertJobs(a.Jobs); err != nil {
		return store.Accepted{}, err
	}
	for _, seq := range spent {
		if err := t.dropSpent(seq); err != nil {
			return store.Accepted{}, err
		}
	}
	return answer, nil
}

// overBacklog says which queue has no room for these jobs.
func (t *tx) overBacklog(jobs []store.NewJob) error {
	for i := range jobs {
		j := &jobs[i]
		if j.MaxPending <= 0 || j.Observed {
			continue
		}
		n := t.unfinished(j.Queue)
		for k := range i {
			if jobs[k].Queue == j.Queue && !jobs[k].Observed {
				n++
			}
		}
		if n >= int64(j.MaxPending) {
			return fmt.Errorf("%w: queue %s has %d unfinished jobs", store.ErrBacklog, j.Queue, n)
		}
	}
	return nil
}

// keyHolder finds the event that holds a key. A row of a stranger counts as free.
func (t *tx) keyHolder(k keyHash) (holder int64, live bool, err error) {
	err = t.query("SELECT rest, event, expires FROM keys WHERE h = ?", func(r *sqlite.Stmt) error {
		var rest [16]byte
		r.ColumnBytes(0, rest[:])
		holder = r.ColumnInt64(1)
		live = rest == k.rest && r.ColumnInt64(2) > t.now
		return nil
	}, k.h)
	return holder, live, err
}

// accepted gives the answer that an event got when it was stored.
func (t *tx) accepted(where string, arg any) (a store.Accepted, ok bool, err error) {
	var seq, n int64
	err = t.query("SELECT seq, id, jobs FROM events WHERE "+where, func(r *sqlite.Stmt) error {
		seq, a.EventID, n, ok = r.ColumnInt64(0), columnID(r, 1), r.ColumnInt64(2), true
		return nil
	}, arg)
	if err != nil || !ok {
		return a, ok, err
	}
	err = t.query("SELECT id FROM jobs WHERE seq >= ?+0 AND seq < ?+0 AND event = ?+0 ORDER BY seq", func(r *sqlite.Stmt) error {
		a.JobIDs = append(a.JobIDs, columnID(r, 0))
		return nil
	}, seq, seq+n, seq)
	return a, ok, err
}

// insertEvent is false when the id is known already.
func (t *tx) insertEvent(a *store.Accept, keys []byte) (bool, error) {
	until := int64(0)
	stamp := t.stamp()
	for _, k := range a.Keys {
		until = max(until, stamp+k.TTL.Microseconds())
	}
	e := &a.Event
	err := t.exec("INSERT OR IGNORE INTO events(seq, id, source, tenant, type, provider_id, verified, accepted, jobs, keys, keys_until) "+
		"VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", t.seq, e.ID, e.Source, orNull(e.Tenant), orNull(e.Type), orNull(e.ProviderID),
		e.Verified, stamp, len(a.Jobs), keys, until)
	if err != nil || t.conn.Changes() == 0 {
		return false, err
	}
	return true, t.exec("INSERT INTO payloads(seq, data) VALUES(?, ?)", t.seq, e.Payload)
}

// insertJobs gives the jobs the event's number and time and those that follow.
func (t *tx) insertJobs(jobs []store.NewJob) error {
	ev := t.seq
	for i := range jobs {
		j := &jobs[i]
		l, err := t.lane(store.LaneID{Queue: j.Queue, Endpoint: j.Endpoint})
		if err != nil {
			return err
		}
		if i > 0 {
			t.stamp()
		}
		// Due by the clock and not by the stamp, which runs ahead of a clock that was set back.
		state, ended := event.Pending, int64(0)
		if j.Observed {
			state, ended = event.Observed, t.lastTime
		}
		err = t.exec("INSERT INTO jobs(seq, id, event, lane, state, created, due, ended) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
			ev+int64(i), j.ID, ev, l.id, state, t.lastTime, t.now, ended)
		if err != nil {
			return err
		}
		t.count(l, state, 1)
		t.wake = t.wake || state == event.Pending
	}
	t.seq += max(1, int64(len(jobs)))
	return nil
}

// appendKey keeps a key as bytes: half the size of its hex. A key that is no hex is kept as it is.
func appendKey(b []byte, key string) []byte {
	raw, err := hex.DecodeString(key)
	if err != nil || len(raw) != sha256.Size {
		raw = []byte(key)
	}
	b = binary.AppendUvarint(b, uint64(len(raw)))
	return append(b, raw...)
}

func keysOf(b []byte) []string {
	var keys []string
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)) || int(n) > len(b)-size { //nolint:gosec // bounded by the comparison before
			break
		}
		raw := b[size : size+int(n)] //nolint:gosec // bounded by the line above
		if len(raw) == sha256.Size {
			keys = append(keys, hex.EncodeToString(raw))
		} else {
			keys = append(keys, string(raw))
		}
		b = b[size+int(n):] //nolint:gosec // as above
	}
	return keys
}
