// SPDX-License-Identifier: Apache-2.0

package lend

import (
	"sync"

	"weir/internal/fault"
)

// quotas count the concurrent commands of all users. Rejected requests do not count.
type quotas struct {
	perUser, max int

	mu    sync.Mutex // guards the fields below
	all   int
	users map[uint32]*quota
}

// quota counts the commands of one user.
type quota struct {
	n int
	// setup serializes the setup of a user's commands, which is expensive.
	setup sync.Mutex
}

// acquire counts a user's command, or returns an error at the maximum.
func (q *quotas) acquire(uid uint32) (*quota, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.users[uid]
	if one != nil && one.n >= q.perUser {
		return nil, fault.New(fault.Failed, "wait until one has ended", "%d commands of this user are running, the maximum", one.n)
	}
	if q.all >= q.max {
		return nil, fault.New(fault.Failed, "wait until one has ended", "%d commands of all users are running, the maximum", q.all)
	}
	if one == nil {
		one = &quota{}
		q.users[uid] = one
	}
	one.n++
	q.all++
	return one, nil
}

func (q *quotas) release(uid uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all--
	if q.users[uid].n--; q.users[uid].n == 0 {
		delete(q.users, uid)
	}
}
