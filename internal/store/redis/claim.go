package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Claim implements store.Store. The payloads are fetched after the script: which ones it is about only the script knows,
// and keys must be declared.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	keys := make([]string, 0, 2*len(c.Lanes))
	args := append(make([]any, 0, 2+2*len(c.Lanes)), idText(c.Token), c.Lease.Microseconds())
	for _, l := range c.Lanes {
		keys = append(keys, s.keys.due(l.LaneID), s.keys.wait(l.LaneID))
		args = append(args, laneText(l.LaneID), max(0, l.Max))
	}
	reply, err := s.run(ctx, scriptClaim, keys, args...)
	if err != nil {
		return store.Claimed{}, err
	}
	answer, _ := reply.([]any)
	got := store.Claimed{Next: time.Duration(number(answer, 0)) * time.Microsecond, More: number(answer, 1) == 1}
	for _, id := range list(answer, 3) {
		t, _ := id.(string)
		s.log.Error("the record of a job cannot be read and the job is not delivered; was it changed by something else than this program?",
			zap.Any("job_id", idsOf(t)), zap.String("store", s.Describe()))
	}
	jobs, err := parseJobs(list(answer, 2))
	if err != nil || len(jobs) == 0 {
		return got, s.fault("claim", err)
	}
	got.Jobs = make([]store.ClaimedJob, len(jobs))
	for i := range jobs {
		got.Jobs[i].Job = jobs[i]
	}
	got.Jobs, err = s.fetchEvents(ctx, c.Token, got.Jobs)
	return got, err
}

const (
	// fetchAtOnce bounds what one pipeline asks for: a claim of many large payloads must not run into the time limit of one.
	fetchAtOnce = 16
	// fetchTime is half a lease: what was read first must still be ours when the last is read, until the next renewal.
	fetchTime = 15 * time.Second
)

// fetchEvents reads the events of claimed jobs. An event that Redis has lost leaves its job without payload, which the
// worker reports. When Redis does not answer, the claim fails as a whole: sent again, it gives all its jobs. An event that
// alone does not come from a Redis that answers is left out, or it would hold up all others for ever: its lease runs out, and
// after some such lives the job is dead. What there was no time for goes back.
func (s *Store) fetchEvents(ctx context.Context, token event.ID, jobs []store.ClaimedJob) (read []store.ClaimedJob, err error) {
	until, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	var slow []store.ClaimedJob
	for len(jobs) > 0 && until.Err() == nil {
		some := jobs[:min(fetchAtOnce, len(jobs))]
		var got []store.ClaimedJob
		if got, err = s.fetch(until, some, 2*s.o.AcceptTimeout); err == nil {
			read, jobs = append(read, got...), jobs[len(some):]
			continue
		}
		for i := 0; i < len(some) && until.Err() == nil; i++ { // together they may have been too large for the time limit
			var said redis.Error
			got, err = s.fetchOne(until, some[i])
			switch {
			case err == nil:
				read = append(read, got...)
			case errors.As(err, &said) || !s.answers(ctx, some[i]):
				return nil, err
			default:
				slow = append(slow, some[i])
			}
			jobs = jobs[1:]
		}
	}
	if len(jobs) > 0 {
		if !s.answers(ctx, jobs[0]) {
			return nil, err
		}
		s.giveBack(ctx, token, jobs)
	}
	for i := range slow { // Redis may have been away in the meantime only
		got, err := s.fetchOne(until, slow[i])
		if err != nil {
			s.log.Error("the event of a job does not come in time and the job is not delivered; is it too large for the way from Redis?",
				zap.Stringer("job_id", slow[i].Job.ID), zap.String("store", s.Describe()), zap.Error(err))
		}
		read = append(read, got...)
	}
	return read, nil
}

// giveBack lets the next claim have the jobs at once. What cannot be given back waits for the end of its lease.
func (s *Store) giveBack(ctx context.Context, token event.ID, jobs []store.ClaimedJob) {
	for i := range jobs {
		j := &jobs[i].Job
		lane := store.LaneID{Queue: j.Queue, Endpoint: j.Endpoint}
		if _, err := s.Release(ctx, store.Lease{Job: j.ID, Token: token, Attempt: j.Attempts, Lane: lane}); err != nil {
			return
		}
	}
}

func (s *Store) fetchOne(ctx context.Context, job store.ClaimedJob) ([]store.ClaimedJob, error) {
	return s.fetch(ctx, []store.ClaimedJob{job}, max(largeTimeout, 2*s.o.AcceptTimeout))
}

// answers asks the server that has the event for something small.
func (s *Store) answers(ctx context.Context, job store.ClaimedJob) bool {
	key := s.keys.event(job.Job.EventID)
	return s.read(ctx, "looking for an event", func(ctx context.Context) error { return s.client.StrLen(ctx, key).Err() }) == nil
}

func (s *Store) fetch(ctx context.Context, jobs []store.ClaimedJob, limit time.Duration) (got []store.ClaimedJob, err error) {
	err = s.readWithin(ctx, limit, "reading claimed events", func(ctx context.Context) error {
		got, err = s.fetchSome(ctx, jobs)
		return err
	})
	return got, err
}

// fetchSome leaves out the jobs whose event is there and cannot be read. Their leases run out, and after some such lives
// they are dead, while the others go on.
func (s *Store) fetchSome(ctx context.Context, jobs []store.ClaimedJob) ([]store.ClaimedJob, error) {
	p := s.client.Pipeline()
	raw := make([]*redis.StringCmd, len(jobs))
	for i := range jobs {
		raw[i] = p.Get(ctx, s.keys.event(jobs[i].Job.EventID))
	}
	_, _ = p.Exec(ctx) // tells the first command's error only, and each has its own
	got := make([]store.ClaimedJob, 0, len(jobs))
	for i := range jobs {
		j := jobs[i]
		j.Event = event.Event{ID: j.Job.EventID, Source: j.Job.Source, Tenant: j.Job.Tenant}
		b, err := raw[i].Bytes()
		if err == nil {
			var e storedEvent
			if e, err = parseEvent(j.Job.EventID, b); err == nil {
				j.Event = e.Event
			}
		} else if !isNil(err) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, err
		}
		if err != nil && !isNil(err) {
			s.log.Error("the event of a job cannot be read and the job is not delivered; was it changed by something else than this program?",
				zap.Stringer("job_id", j.Job.ID), zap.String("store", s.Describe()), zap.Error(err))
			continue
		}
		got = append(got, j)
	}
	return got, nil
}

// parseJobs reads ids and records that follow each other.
func parseJobs(answer []any) ([]event.Job, error) {
	jobs := make([]event.Job, 0, len(answer)/2)
	for i := 0; i+1 < len(answer); i += 2 {
		id := idsOf(text(answer, i))
		if len(id) != 1 {
			return nil, errReply
		}
		j, _, err := parseJob(id[0], text(answer, i+1))
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// renewAtOnce bounds one script, which holds up everybody else.
const renewAtOnce = 500

// Renew implements store.Store. A lease that ran out but was not recovered yet is still its holder's.
func (s *Store) Renew(ctx context.Context, leases []store.Lease, d time.Duration) ([]store.Lease, error) {
	if s.isClosed() {
		return nil, store.ErrClosed
	}
	var lost []store.Lease
	for len(leases) > 0 {
		some := leases[:min(renewAtOnce, len(leases))]
		leases = leases[len(some):]
		args := append(make([]any, 0, 1+3*len(some)), d.Microseconds())
		for i := range some {
			args = append(args, idText(some[i].Job), idText(some[i].Token), some[i].Attempt)
		}
		reply, err := s.run(ctx, scriptRenew, nil, args...)
		if err != nil {
			return lost, err
		}
		answer, _ := reply.([]any)
		for i := range answer {
			n := number(answer, i)
			if n < 0 || n >= int64(len(some)) {
				return lost, errReply
			}
			lost = append(lost, some[n])
		}
	}
	return lost, nil
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, l store.Lease) (lost bool, err error) {
	reply, err := s.run(ctx, scriptRelease, []string{s.keys.due(l.Lane), s.keys.wait(l.Lane)},
		idText(l.Job), idText(l.Token), l.Attempt, s.keys.of("wake"), s.name)
	if err == nil {
		s.ring()
	}
	return reply == int64(1), err
}
