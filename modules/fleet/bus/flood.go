// SPDX-License-Identifier: Apache-2.0

package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// Intervals of the checks of connections and of the users' file.
	floodInterval = 200 * time.Millisecond
	usersInterval = time.Second
	// maxInput bounds the bytes that one user sends in an interval, over all connections. 100
	// reports a second with all claims and long names stay below.
	maxInput = 2 << 20
	// suspension is the time for which a user that exceeds the bound cannot connect.
	suspension = time.Minute
)

// Maintain follows the users' file and suspends hosts that flood the server, until ctx ends. A
// flood would delay the reports of other hosts beyond their leases.
func (s *Server) Maintain(ctx context.Context) {
	tick := time.NewTicker(floodInterval)
	defer tick.Stop()
	inputs := map[uint64]int64{} // bytes by connection, at the last check
	for reload := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			changed := s.suspend(now, s.floods(inputs))
			if !changed && now.Before(reload) {
				continue
			}
			reload = now.Add(usersInterval)
			if err := s.Reload(); err != nil {
				s.config.Log.Error("keeps the former users", "reason", err)
			}
		}
	}
}

// floods returns the users that have sent more than maxInput bytes since the last check. It updates
// the bytes of each connection.
func (s *Server) floods(inputs map[uint64]int64) (all []string) {
	sums := map[string]int64{}
	stays := map[uint64]int64{}
	const page = 1 << 10
	for offset := 0; ; offset += page {
		c, err := s.nats.Connz(&server.ConnzOptions{Username: true, Offset: offset, Limit: page})
		if err != nil || len(c.Conns) == 0 {
			break
		}
		for _, one := range c.Conns {
			stays[one.Cid] = one.InBytes
			sums[one.AuthorizedUser] += one.InBytes - inputs[one.Cid]
		}
	}
	clear(inputs)
	for id, n := range stays {
		inputs[id] = n
	}
	for user, sum := range sums {
		if sum > maxInput {
			all = append(all, user)
		}
	}
	return all
}

// suspend suspends users of hosts, and ends suspensions after their time. It reports whether the
// users have changed.
func (s *Server) suspend(now time.Time, floods []string) (changed bool) {
	for _, key := range floods {
		if host := s.hosts[key]; host != "" && s.suspended[key].IsZero() {
			s.suspended[key] = now.Add(suspension)
			s.config.Log.Warn("suspends a host", "host", host, "for", suspension,
				"reason", fmt.Sprintf("it has sent more than %d bytes in %s", maxInput, floodInterval))
			changed = true
		}
	}
	for key, until := range s.suspended {
		if now.After(until) {
			delete(s.suspended, key)
			changed = true
		}
	}
	s.stale = s.stale || changed
	return changed
}
