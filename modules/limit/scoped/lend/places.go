// SPDX-License-Identifier: Apache-2.0

package lend

import (
	"sync"

	"weir/internal/fault"
)

// places are the commands that users have at a time. One that was refused has none.
type places struct {
	perUser, most int

	mu    sync.Mutex // guards what follows
	all   int
	taken map[uint32]*place
}

// place is a user's.
type place struct {
	n int
	// setup has one of his commands set up at a time: that is some work.
	setup sync.Mutex
}

// enter takes a place for a user's command.
func (p *places) enter(uid uint32) (*place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.taken[uid]
	if one != nil && one.n >= p.perUser {
		return nil, fault.New(fault.Failed, "wait until one has ended", "%d commands of this user have lent rights, which is the most", one.n)
	}
	if p.all >= p.most {
		return nil, fault.New(fault.Failed, "wait until one has ended", "%d commands of all users have lent rights, which is the most", p.all)
	}
	if one == nil {
		one = &place{}
		p.taken[uid] = one
	}
	one.n++
	p.all++
	return one, nil
}

func (p *places) leave(uid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.taken[uid].n--; p.taken[uid].n == 0 {
		delete(p.taken, uid)
	}
}
