package redis

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// The records are written by lua/prelude.lua as well; see there for their order. Numbers are big-endian.

var errRecord = errors.New("reading a record: it is damaged; was it changed by something else than this program?")

// fields reads a record from its beginning. After the first field that is not there everything is zero and bad is set.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) take(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.bad, f.rest = true, nil
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) uint(size int) uint64 {
	var n uint64
	for _, b := range f.take(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (f *fields) int(size int) int { return int(f.uint(size)) } //nolint:gosec // at most four bytes

func (f *fields) time() time.Time { return micros(int64(f.uint(8))) } //nolint:gosec // written from an int64

func (f *fields) id() (id event.ID) {
	copy(id[:], f.take(len(id)))
	return id
}

// text reads a string behind its length of so many bytes.
func (f *fields) text(size int) string { return string(f.take(f.int(size))) }

// uvarText reads a string as appendText writes it.
func (f *fields) uvarText() string {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 || n > uint64(len(f.rest)) || int(n) > len(f.rest)-size { //nolint:gosec // bounded by the comparison before
		f.bad, f.rest = true, nil
		return ""
	}
	f.rest = f.rest[size:]
	return string(f.take(int(n))) //nolint:gosec // bounded by the line above
}

func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// micros is the zero time for 0.
func micros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// appendInfo writes what every job repeats of its event.
func appendInfo(b []byte, e *event.Event) []byte {
	for _, s := range []string{e.Source, e.Tenant, e.Type, e.ProviderID} {
		b = appendText(b, s)
	}
	return b
}

func parseJob(id event.ID, raw string) (event.Job, event.ID, error) {
	f := fields{rest: []byte(raw)}
	j := event.Job{ID: id, State: event.State(f.int(1)), Pruned: f.int(1) == 1} //nolint:gosec // written from a State
	j.Attempts, j.Failures, j.Lost = f.int(4), f.int(4), f.int(4)
	j.CreatedAt, j.RunAt, j.EndedAt = f.time(), f.time(), f.time()
	f.time() // claimed
	j.EventID = f.id()
	token := f.id()
	j.ReplayOf = f.id()
	lane := parseLane(f.text(4))
	j.Queue, j.Endpoint, j.Source = lane.Queue, lane.Endpoint, store.SourceOf(lane.Endpoint)
	info := fields{rest: f.take(f.int(4))}
	j.DeadReason = event.Reason(f.text(4))
	j.LastError = f.text(4)
	if len(info.rest) > 0 { // retention takes it
		j.Source, j.Tenant, j.EventType, j.ProviderID = info.uvarText(), info.uvarText(), info.uvarText(), info.uvarText()
	}
	if f.bad || info.bad {
		return j, token, errRecord
	}
	return j, token, nil
}

// claimedAt is when the newest life of a job began.
func claimedAt(raw string) time.Time {
	const before = 1 + 1 + 3*4 + 3*8
	f := fields{rest: []byte(raw)}
	f.take(before)
	return f.time()
}

// appendFacts writes what an event has beside its ids and payload, behind the length of it all.
func appendFacts(e *event.Event, keys []store.Key) []byte {
	b := make([]byte, 4, 192)
	if e.Verified {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = appendInfo(b, e)
	for _, k := range keys {
		b = appendText(b, k.Value)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4)) //nolint:gosec // bounded by the configuration of keys
	return b
}

// eventPruned is the kind of an event whose payload is gone, see lua/prelude.lua.
const eventPruned = 2

// storedEvent is an event's record; the payload is what is left in rest.
type storedEvent struct {
	event.Event
	pruned bool
	// short is true when the record was read in part and not all facts are in that part.
	short bool
}

func parseEvent(id event.ID, raw []byte) (storedEvent, error) {
	f := fields{rest: raw}
	e := storedEvent{pruned: f.int(1) == eventPruned}
	e.ID = id
	at := f.uint(8)
	e.AcceptedAt, e.Seq = micros(int64(at)), int64(at) //nolint:gosec // written from an int64
	f.uint(8)                                          // the end of its keys
	f.take(16 * f.int(2))                              // the ids of its jobs
	if f.bad || e.pruned {
		e.short = f.bad
		return e, nil
	}
	size := f.int(4)
	facts := fields{rest: f.take(size)}
	if f.bad {
		e.short = true
		return e, nil
	}
	e.Verified = facts.int(1) == 1
	e.Source, e.Tenant, e.Type, e.ProviderID = facts.uvarText(), facts.uvarText(), facts.uvarText(), facts.uvarText()
	for len(facts.rest) > 0 {
		e.Keys = append(e.Keys, facts.uvarText())
	}
	e.Payload = f.rest
	if facts.bad {
		return e, errRecord
	}
	return e, nil
}

// appendAttempt writes a row of the ledger behind its length. The rows of a job follow each other.
func appendAttempt(a *event.Attempt) []byte {
	b := make([]byte, 4, 64+len(a.Error)+len(a.Snippet))
	b = binary.BigEndian.AppendUint32(b, uint32(a.Number)) //nolint:gosec // counts attempts
	b = binary.BigEndian.AppendUint64(b, uint64(a.StartedAt.UnixMicro()))
	b = binary.BigEndian.AppendUint64(b, uint64(a.Duration.Microseconds())) //nolint:gosec // never negative
	b = binary.BigEndian.AppendUint16(b, uint16(a.Status))                  //nolint:gosec // three digits
	b = appendText(b, string(a.Class))
	b = appendText(b, a.Error)
	b = appendText(b, a.Snippet)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4)) //nolint:gosec // bounded by the worker
	return b
}

func parseLedger(raw string) ([]event.Attempt, error) {
	all := fields{rest: []byte(raw)}
	var rows []event.Attempt
	for len(all.rest) > 0 {
		f := fields{rest: all.take(all.int(4))}
		a := event.Attempt{Number: f.int(4), StartedAt: f.time()}
		a.Duration = time.Duration(f.uint(8)) * time.Microsecond //nolint:gosec // written from a Duration
		a.Status = f.int(2)
		a.Class, a.Error, a.Snippet = event.Class(f.uvarText()), f.uvarText(), f.uvarText()
		if all.bad || f.bad {
			return rows, errRecord
		}
		rows = append(rows, a)
	}
	return rows, nil
}

// idsOf splits ids that stand one after the other.
func idsOf(text string) []event.ID {
	ids := make([]event.ID, len(text)/16)
	for i := range ids {
		copy(ids[i][:], text[16*i:])
	}
	return ids
}

func idText(id event.ID) string { return string(id[:]) }
