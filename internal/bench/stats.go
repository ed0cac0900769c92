package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// waitEmpty returns when no job is pending or running.
func (s *server) waitEmpty(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Minute)
	for {
		n, err := s.unfinished()
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.done:
			s.done <- err
			return errors.New("waiting for the backlog: caddy has ended")
		case <-deadline:
			return errors.New("waiting for the backlog: jobs are left after 10 minutes")
		}
	}
}

func (s *server) unfinished() (int, error) {
	res, err := http.Get(s.admin + "/anvil/stats")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var stats struct {
		Queues []struct{ Pending, Running int } `json:"queues"`
	}
	if err := json.NewDecoder(res.Body).Decode(&stats); err != nil {
		return 0, err
	}
	n := 0
	for _, q := range stats.Queues {
		n += q.Pending + q.Running
	}
	return n, nil
}
