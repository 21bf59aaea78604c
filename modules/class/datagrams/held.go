// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"weir/internal/dscp"
	"weir/kernel/bpferr"
	"weir/kernel/cgroup"
)

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with CONFIG_BPF_JIT and CONFIG_CGROUP_BPF"}

// Counts holds the counters of the datagrams of a cgroup, in both directions.
type Counts struct {
	Octets  uint64 `json:"octets"`  // passed, with IP headers
	Dropped uint64 `json:"dropped"` // datagrams beyond the rate
	Rate    uint64 `json:"rate"`    // of the limit at the end, bit/s
}

// Held holds the datagrams of a cgroup until it is closed.
type Held struct {
	objects datagramsObjects
	links   []link.Link
	steering
	stop, done chan struct{}
	unmeasured error // no right to measure round trips
}

// Hold holds the datagrams of the cgroup at path and its descendants at the rate that LEDBAT++
// would send, in each direction. Round trips are measured in the network namespace of this process,
// with the class d. Hold ends at Close or with the process.
func Hold(path string, d dscp.DSCP) (*Held, error) {
	h, err := load(d)
	if err != nil {
		return nil, err
	}
	if err := h.attach(path); err != nil {
		return nil, errors.Join(err, h.detach())
	}
	h.unmeasured = mayMeasure()
	go func() {
		defer close(h.done)
		h.run(h.stop)
	}()
	return h, nil
}

// load loads the programs.
func load(d dscp.DSCP) (*Held, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, programNeeds.Fault("lift memory lock limit", err)
	}
	h := &Held{stop: make(chan struct{}), done: make(chan struct{})}
	if err := loadDatagramsObjects(&h.objects, nil); err != nil {
		return nil, programNeeds.Fault("load program for datagrams", err)
	}
	h.steering = newSteering(&h.objects, d)
	return h, nil
}

func (h *Held) attach(path string) error {
	h.path = path
	if err := h.limit(Unmeasured, burst(Unmeasured)); err != nil {
		return err
	}
	for _, one := range []struct {
		hook    ebpf.AttachType
		program *ebpf.Program
	}{{ebpf.AttachCGroupInetEgress, h.objects.DatagramsEgress}, {ebpf.AttachCGroupInetIngress, h.objects.DatagramsIngress}} {
		attached, err := cgroup.AttachProgram(path, one.hook, one.program)
		if err != nil {
			return programNeeds.Fault("attach to cgroup "+path, err)
		}
		h.links = append(h.links, attached)
	}
	return nil
}

func (h *Held) detach() (err error) {
	for _, l := range h.links {
		err = errors.Join(err, l.Close())
	}
	return errors.Join(err, h.objects.Close())
}

// Counts returns the counters.
func (h *Held) Counts() (c Counts, err error) {
	for at := range uint32(2) {
		q, err := h.queue(at)
		if err != nil {
			return c, err
		}
		c.Octets += q.Passed
		c.Dropped += q.Dropped
	}
	var limit datagramsDatagramsLimit
	if err := h.objects.DatagramsLimits.Lookup(uint32(0), &limit); err != nil {
		return c, fmt.Errorf("read limit of datagrams: %w", err)
	}
	c.Rate = 8 * limit.Rate
	return c, nil
}

// Unmeasured returns the error if this process has no right to send echo requests. Then the rate
// remains [Unmeasured].
func (h *Held) Unmeasured() error { return h.unmeasured }

// Close ends it.
func (h *Held) Close() error {
	close(h.stop)
	<-h.done
	return h.detach()
}

// request is an echo request without a reply.
type request struct {
	at   time.Time
	lost bool // counted as a loss; a later reply is a sample all the same
}

// steering measures round trips and sets the limit.
type steering struct {
	objects *datagramsObjects
	path    string // of the cgroup
	class   dscp.DSCP
	replies chan reply
	echoes  *echoes // nil without a peer
	peer    netip.Addr
	known   map[netip.Addr]*controller
	now     *controller // of the peer
	sent    map[uint16]request
	seq     uint16
	began   time.Time
	total   uint64    // octets offered in both directions at the last tick
	offered [2]uint64 // octets at the last step
	stepped time.Time
	active  time.Time // last change of offered
	chosen  time.Time // of the peer
	heard   time.Time // last reply
	octets  map[netip.Addr]uint64
}

func newSteering(objects *datagramsObjects, d dscp.DSCP) steering {
	now := time.Now()
	return steering{objects: objects, class: d, replies: make(chan reply, 64), known: map[netip.Addr]*controller{}, sent: map[uint16]request{},
		began: now, stepped: now, octets: map[netip.Addr]uint64{}}
}

const (
	idlePause   = 100 * time.Millisecond // between looks for datagrams
	idleAfter   = 2 * time.Second
	choosePause = time.Second
	silentAfter = 2 * time.Second
	maxKnown    = 64
)

func (s *steering) run(stop <-chan struct{}) {
	defer s.closeEchoes()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case r := <-s.replies:
			s.take(r)
		case <-timer.C:
			timer.Reset(s.tick(time.Now()))
		}
	}
}

// tick looks for datagrams and sends a request. It returns the time to the next tick.
func (s *steering) tick(now time.Time) time.Duration {
	total := uint64(0)
	for at := range uint32(2) {
		if q, err := s.queue(at); err == nil {
			total += q.Offered
		}
	}
	if total != s.total {
		s.total, s.active = total, now
	}
	if s.active.IsZero() || now.Sub(s.active) > idleAfter {
		s.closeEchoes()
		return idlePause
	}
	if now.Sub(s.chosen) > choosePause {
		s.choose(now)
	}
	if s.echoes == nil {
		return idlePause
	}
	s.expire(now)
	_ = s.echoes.send(s.request(now)) // counts as lost
	return s.now.interval()
}

// request stores a request and returns its sequence number.
func (s *steering) request(now time.Time) uint16 {
	s.seq++
	s.sent[s.seq] = request{at: now}
	return s.seq
}

// expire counts the requests without a reply as lost, and later forgets them.
func (s *steering) expire(now time.Time) {
	for seq, r := range s.sent {
		switch age := now.Sub(r.at); {
		case age >= silentAfter+2*s.now.srtt:
			delete(s.sent, seq)
		case age >= 200*time.Millisecond+2*s.now.srtt && !r.lost:
			s.sent[seq] = request{r.at, true}
			s.now.lose(now.Sub(s.began))
		}
	}
	if now.Sub(s.heard) > silentAfter {
		s.now.silence()
	}
	_ = s.apply()
}

// take takes a reply.
func (s *steering) take(r reply) {
	sent, waits := s.sent[r.seq]
	if r.from != s.echoes || !waits {
		return
	}
	delete(s.sent, r.seq)
	s.heard = r.at
	s.now.sample(r.at.Sub(s.began), max(time.Microsecond, r.at.Sub(sent.at)), s.rate(r.at))
	_ = s.apply()
}

// rate is the rate of the direction with more datagrams since the last step, in octets per second.
func (s *steering) rate(now time.Time) (most float64) {
	seconds := max(1e-3, now.Sub(s.stepped).Seconds())
	s.stepped = now
	for at := range s.offered {
		if q, err := s.queue(uint32(at)); err == nil {
			most = max(most, float64(q.Offered-s.offered[at])/seconds)
			s.offered[at] = q.Offered
		}
	}
	return most
}

func (s *steering) closeEchoes() {
	if s.echoes != nil {
		s.echoes.close()
	}
	s.echoes = nil
	clear(s.sent)
}

func (s *steering) queue(at uint32) (q datagramsDatagramsQueue, err error) {
	if err := s.objects.DatagramsQueues.Lookup(at, &q); err != nil {
		return q, fmt.Errorf("read counters of datagrams: %w", err)
	}
	return q, nil
}

func (s *steering) apply() error { return s.limit(s.now.rate, burst(s.now.rate)) }

func (s *steering) limit(rate float64, queue time.Duration) error {
	value := datagramsDatagramsLimit{Rate: uint64(rate), Burst: uint64(queue)}
	if err := s.objects.DatagramsLimits.Put(uint32(0), value); err != nil {
		return fmt.Errorf("set limit of datagrams: %w", err)
	}
	return nil
}
