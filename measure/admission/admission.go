// SPDX-License-Identifier: Apache-2.0

// Package admission decides whether a measurement server starts a test.
//
// A server runs a bounded number of tests. One client block (an IPv4 address or an IPv6 /64) runs
// at most its fair share of them, as if one more block waited: with n blocks that is 1/(n+1) of the
// bound, rounded up. So a newcomer finds a free place, unless all blocks together fill the server.
// Running tests are never ended for others.
package admission

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Gate counts the running tests. It is safe for concurrent use.
type Gate struct {
	maxTests int

	mu       sync.Mutex                   // guards the following fields
	running  map[netip.Prefix][]time.Time // the latest end of each test
	total    int
	draining bool
	idle     chan struct{} // closed when draining and no test runs
}

// New returns a gate for at most maxTests tests.
func New(maxTests int) *Gate {
	return &Gate{maxTests: maxTests, running: map[netip.Prefix][]time.Time{}, idle: make(chan struct{})}
}

// Rejection is the reason why a test does not start.
type Rejection struct {
	Kind       string // "tests", "share", "drain": a label of metrics
	Detail     string
	RetryAfter time.Duration // at least 1 s
}

func (r *Rejection) Error() string { return r.Detail }

// Block returns the client block of an address: /32 or /64.
func Block(client netip.Addr) netip.Prefix {
	client = client.Unmap().WithZone("")
	bits := 32
	if client.Is6() {
		bits = 64
	}
	block, _ := client.Prefix(bits) // no error: the length fits the family
	return block
}

// Admit starts a test of at most that length: call release once at its end. concurrent is the
// number of running tests, this one included.
func (g *Gate) Admit(client netip.Addr, length time.Duration) (release func(), concurrent int, rejection *Rejection) {
	g.mu.Lock()
	defer g.mu.Unlock()
	block, now := Block(client), time.Now()
	if r := g.check(block, now); r != nil {
		return nil, g.total, r
	}
	end := now.Add(length)
	g.running[block] = append(g.running[block], end)
	g.total++
	return sync.OnceFunc(func() { g.release(block, end) }), g.total, nil
}

// Check returns the rejection that Admit would return now.
func (g *Gate) Check(client netip.Addr) *Rejection {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.check(Block(client), time.Now())
}

func (g *Gate) check(block netip.Prefix, now time.Time) *Rejection {
	blocks := len(g.running)
	if len(g.running[block]) == 0 {
		blocks++
	}
	share := (g.maxTests + blocks) / (blocks + 1) // rounded up
	switch {
	case g.draining:
		return &Rejection{Kind: "drain", Detail: "the server stops: it runs no new tests", RetryAfter: 30 * time.Second}
	case g.total >= g.maxTests:
		return &Rejection{Kind: "tests", Detail: fmt.Sprintf("the server is full: its maximum of tests is %d", g.maxTests), RetryAfter: g.wait(now, g.running)}
	case len(g.running[block]) >= share:
		own := map[netip.Prefix][]time.Time{block: g.running[block]}
		return &Rejection{Kind: "share", Detail: fmt.Sprintf("tests of %s have its fair share, %d of %d", block, len(g.running[block]), g.maxTests), RetryAfter: g.wait(now, own)}
	}
	return nil
}

// wait returns the time until the first of these tests has ended, rounded up to a second.
func (g *Gate) wait(now time.Time, tests map[netip.Prefix][]time.Time) time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, ends := range tests {
		for _, end := range ends {
			least = min(least, end.Sub(now))
		}
	}
	if least == math.MaxInt64 { // no test runs
		return time.Second
	}
	return max(least.Truncate(time.Second)+time.Second, time.Second)
}

func (g *Gate) release(block netip.Prefix, end time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ends := g.running[block]
	if i := slices.IndexFunc(ends, end.Equal); i >= 0 {
		ends = slices.Delete(ends, i, i+1)
	}
	if g.running[block] = ends; len(ends) == 0 {
		delete(g.running, block)
	}
	g.total--
	g.ended()
}

// Drain refuses all new tests from now on and returns a channel that is closed when no test runs.
func (g *Gate) Drain() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.draining {
		g.draining = true
		g.ended()
	}
	return g.idle
}

func (g *Gate) ended() {
	if g.draining && g.total == 0 {
		close(g.idle)
	}
}

// Running returns the number of running tests and of client blocks, and whether the gate drains.
func (g *Gate) Running() (tests, blocks int, draining bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.total, len(g.running), g.draining
}
