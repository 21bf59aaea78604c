// SPDX-License-Identifier: Apache-2.0

// Package sim simulates a fleet in virtual time: the leader and the hosts are those of production
// (packages leader and member), only network and traffic are models. It checks at every change of a
// rate that no shared limit is exceeded.
//
// The model: a message takes a random time and may be lost; a host uses the lower of its demand and
// its rate at once. So the simulator says how grants follow demand, not how TCP follows grants.
package sim

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"weir/modules/fleet/alloc"
	"weir/modules/fleet/leader"
	"weir/modules/fleet/member"
	"weir/modules/fleet/wire"
)

// Config describes a fleet below one shared limit.
type Config struct {
	Hosts    int
	Rate     float64 // bit/s of the shared limit
	Min      float64 // bit/s, guarantee of each host
	Weight   func(host int) int
	Interval time.Duration // between reports
	Lease    time.Duration
	Delay    time.Duration // mean one-way delay of a message, exponential
	Loss     float64       // of messages
	Pause    time.Duration // least time between two decisions of the leader
	Seed     uint64
}

// Sim is a running simulation. Time starts at zero.
type Sim struct {
	c       Config
	now     time.Duration
	random  *rand.Rand
	events  events
	count   int
	hosts   []*host
	leader  *leader.Leader
	saved   []leader.Member // as in the key-value store
	epoch   uint64
	decided time.Duration
	waiting bool // a decision is scheduled
	tree    leader.Tree
	sum     float64 // of all effective rates

	// Max is the highest sum of all hosts' rates, as a share of the limit.
	Max float64
	// Messages counts reports and grants.
	Messages int
	// Decisions counts allocations, and Spent the time that they took on this machine; Longest is
	// the longest one.
	Decisions      int
	Spent, Longest time.Duration
}

type host struct {
	name   string
	member *member.Member
	claim  *member.Claim
	demand float64
	boots  uint64
	up     bool // the daemon runs
	cut    bool // no message passes
	rate   float64
	last   float64 // floor that outlives the daemon
	early  bool    // an early report is due
	alive  int     // generation of the timer
}

var start = time.Unix(0, 0)

// at is the virtual time as the state machines see it.
func (s *Sim) at() time.Time { return start.Add(s.now) }

// New returns a fleet without a leader. Its hosts start within the first interval.
func New(c Config) *Sim {
	s := &Sim{c: c, random: rand.New(rand.NewPCG(c.Seed, 1))}
	if err := s.tree.Add("wan", "", alloc.Limit{Rate: c.Rate}); err != nil {
		panic(err) // the tree was empty
	}
	for i := range c.Hosts {
		s.hosts = append(s.hosts, &host{name: fmt.Sprintf("host%d", i)})
		s.after(time.Duration(s.random.Float64()*float64(c.Interval)), func() { s.StartHost(i) })
	}
	return s
}

// StartHost starts the daemon of a host.
func (s *Sim) StartHost(i int) {
	h := s.hosts[i]
	weight := 1
	if s.c.Weight != nil {
		weight = s.c.Weight(i)
	}
	h.boots++
	h.alive++
	h.claim = &member.Claim{ID: "wan/egress", Limit: "wan", Min: s.c.Min, Weight: weight, Floor: h.last}
	h.member = member.New(h.name, h.boots, []*member.Claim{h.claim})
	h.up = true
	s.effective(h)
	s.report(h, h.alive)
}

// KillHost ends the daemon of a host. Its rate stays until the lease ends, as in the kernel.
func (s *Sim) KillHost(i int) {
	s.hosts[i].up = false
	s.hosts[i].alive++
}

// Cut parts hosts from the leader, or connects them again.
func (s *Sim) Cut(i int, cut bool) { s.hosts[i].cut = cut }

// Demand sets the rate that a host would use.
func (s *Sim) Demand(i int, rate float64) {
	h := s.hosts[i]
	was := h.throttled()
	h.demand = rate
	if h.up && !was && h.throttled() && !h.early { // the agent notices throttling before its next report
		h.early = true
		generation := h.alive
		s.after(s.c.Interval/5, func() { h.early = false; s.send(h, generation) })
	}
}

func (h *host) throttled() bool { return h.demand > h.rate }

// report sends a report and plans the next one.
func (s *Sim) report(h *host, generation int) {
	if h.alive != generation || !h.up {
		return
	}
	s.send(h, generation)
	s.after(s.c.Interval, func() { s.report(h, generation) })
}

func (s *Sim) send(h *host, generation int) {
	if h.alive != generation || !h.up {
		return
	}
	s.effective(h)
	r := h.member.Report(s.at(), map[string]member.Sample{h.claim.ID: {Used: min(h.demand, h.rate), Throttled: h.throttled()}})
	s.message(h, func() { s.receive(r) })
}

// message delivers f after the delay of a message, unless it is lost.
func (s *Sim) message(h *host, f func()) {
	s.Messages++
	if h.cut || s.random.Float64() < s.c.Loss {
		return
	}
	s.after(time.Duration(s.random.ExpFloat64()*float64(s.c.Delay)), f)
}

func (s *Sim) receive(r wire.Report) {
	if s.leader == nil {
		return
	}
	s.leader.Report(s.at(), r)
	if s.waiting {
		return
	}
	s.waiting = true
	s.after(max(0, s.decided+s.c.Pause-s.now), s.decide)
}

func (s *Sim) decide() {
	s.waiting = false
	if s.leader == nil {
		return
	}
	s.decided = s.now
	if _, versions := s.leader.Unsaved(); len(versions) > 0 {
		s.saved = s.leader.Members()
		s.leader.Saved(versions)
	}
	begin := time.Now()
	out := s.leader.Decide(s.at())
	took := time.Since(begin)
	s.Decisions, s.Spent, s.Longest = s.Decisions+1, s.Spent+took, max(s.Longest, took)
	for _, o := range out {
		var i int
		if _, err := fmt.Sscanf(o.Host, "host%d", &i); err != nil {
			panic(err)
		}
		h := s.hosts[i]
		s.message(h, func() { s.grant(h, o.Grant) })
	}
}

func (s *Sim) grant(h *host, g wire.Grant) {
	if !h.up {
		return
	}
	o := h.member.Grant(s.at(), g)
	if o.Applied {
		h.last = h.claim.Floor
		s.effective(h)
		generation := h.alive
		if until := h.claim.Until; !until.IsZero() {
			s.after(until.Sub(s.at()), func() { s.effective(h) })
		}
		if o.Confirm {
			s.send(h, generation)
		}
	} else if o.Confirm {
		s.send(h, h.alive)
	}
}

// effective updates the rate that the kernel applies, and the sum of all.
func (s *Sim) effective(h *host) {
	rate := h.claim.Rate
	if until := h.claim.Until; !until.IsZero() && !s.at().Before(until) {
		rate = h.claim.Floor
	}
	s.sum += rate - h.rate
	h.rate = rate
	s.Max = max(s.Max, s.sum/s.c.Rate)
}

// StartLeader starts a new leader with the saved members, in place of one that has ended.
func (s *Sim) StartLeader() {
	s.epoch++
	s.leader = leader.New(s.at(), s.epoch, s.c.Lease, s.tree, s.saved)
	var tick func()
	mine := s.leader
	tick = func() {
		if s.leader == mine {
			s.decide()
			s.after(s.c.Interval, tick)
		}
	}
	tick()
}

// KillLeader ends the leader.
func (s *Sim) KillLeader() { s.leader = nil }

// Used returns the use of the limit, from 0 to 1, and the highest that the demands allow.
func (s *Sim) Used() (used, possible float64) {
	for _, h := range s.hosts {
		used, possible = used+min(h.demand, h.rate), possible+h.demand
	}
	return used / s.c.Rate, min(possible, s.c.Rate) / s.c.Rate
}

// Sum returns the sum of all rates as a share of the limit.
func (s *Sim) Sum() float64 { return s.sum / s.c.Rate }

// Rate returns the rate of a host.
func (s *Sim) Rate(i int) float64 { return s.hosts[i].rate }

// Jain returns Jain's index of the rates of all hosts by their weights.
func (s *Sim) Jain() float64 {
	var sum, squares float64
	for i, h := range s.hosts {
		x := min(h.demand, h.rate)
		if s.c.Weight != nil {
			x /= float64(s.c.Weight(i))
		}
		sum, squares = sum+x, squares+x*x
	}
	if squares == 0 {
		return math.NaN()
	}
	return sum * sum / (float64(len(s.hosts)) * squares)
}

// Run advances the virtual time.
func (s *Sim) Run(d time.Duration) {
	end := s.now + d
	for len(s.events) > 0 && s.events[0].at <= end {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	s.now = end
}

func (s *Sim) after(d time.Duration, f func()) {
	s.count++
	heap.Push(&s.events, event{s.now + max(0, d), s.count, f})
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}
