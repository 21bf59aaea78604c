// SPDX-License-Identifier: Apache-2.0

package lead

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/kernel/testutil"
	"weir/modules/fleet/bus"
	"weir/modules/fleet/member"
	"weir/modules/fleet/shared"
	"weir/modules/fleet/wire"
)

const fleet = "research"

// stage is an embedded server with enrolled hosts.
type stage struct {
	*testing.T
	dir    string
	server *bus.Server
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, dir: t.TempDir()}
	s.start()
	t.Cleanup(func() { s.server.Close() })
	return s
}

func (s *stage) log() *slog.Logger { return slog.New(slog.NewTextHandler(s.Output(), nil)) }

func (s *stage) start() {
	s.Helper()
	var err error
	if s.server, err = bus.Start(bus.ServerConfig{Fleet: fleet, Dir: s.dir, Listen: "127.0.0.1:0", Log: s.log()}); err != nil {
		s.Fatal(err)
	}
}

// lead starts a candidate in the server's process.
func (s *stage) lead(name string) (stop func()) {
	s.Helper()
	nc, err := s.server.Connect()
	if err != nil {
		s.Fatal(err)
	}
	inbox, err := s.server.Connect()
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = Candidate{Conn: bus.Wrap(fleet, nc), Inbox: bus.Wrap(fleet, inbox), Name: name, Replicas: 1, Lease: time.Second, Log: s.log()}.Run(ctx)
	}()
	return sync.OnceFunc(func() { cancel(); <-ended; nc.Close(); inbox.Close() })
}

func (s *stage) operator() *bus.Conn {
	s.Helper()
	c, err := bus.Dial(fleet, []string{s.server.Address()}, filepath.Join(s.dir, "operator.credentials"), false)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	return c
}

// enroll makes the credentials of a host and returns their path.
func (s *stage) enroll(host string) string {
	s.Helper()
	c, err := bus.Enroll(s.dir, fleet, host)
	path := filepath.Join(s.dir, host+".credentials")
	if err == nil {
		err = c.Write(path)
	}
	if err == nil {
		err = s.server.Reload()
	}
	if err != nil {
		s.Fatal(err)
	}
	return path
}

// agent is a host without a data plane: its demand is unlimited or 0.
type agent struct {
	sync.Mutex
	member *member.Member
	claim  *member.Claim
	busy   bool
	grants atomic.Int64 // received
	stop   func()
}

func (s *stage) agent(host string, min float64) *agent {
	s.Helper()
	conn, err := bus.Dial(fleet, []string{s.server.Address()}, s.enroll(host), true)
	if err != nil {
		s.Fatal(err)
	}
	a := &agent{claim: &member.Claim{ID: "wan/egress", Limit: "wan", Min: min, Weight: 1}, busy: true}
	a.member = member.New(host, uint64(time.Now().UnixNano()), []*member.Claim{a.claim})
	report := func() {
		used := a.claim.Rate
		if !a.busy {
			used = 0
		}
		_ = conn.Report(a.member.Report(time.Now(), map[string]member.Sample{a.claim.ID: {Used: used, Throttled: a.busy}}))
	}
	err = conn.Grants(host, func(g wire.Grant) {
		a.Lock()
		defer a.Unlock()
		a.grants.Add(1)
		if o := a.member.Grant(time.Now(), g); o.Confirm {
			report()
		}
	})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			a.Lock()
			report()
			a.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
	}()
	a.stop = sync.OnceFunc(func() { cancel(); <-ended; conn.Close() })
	s.Cleanup(a.stop)
	return a
}

func (a *agent) rate() float64 {
	a.Lock()
	defer a.Unlock()
	a.member.Expire(time.Now())
	return a.claim.Rate
}

func (a *agent) setBusy(busy bool) {
	a.Lock()
	defer a.Unlock()
	a.busy = busy
}

// eventually waits for a condition.
func (s *stage) eventually(what string, f func() (string, bool)) {
	s.Helper()
	got := ""
	defer func() {
		if s.Failed() {
			s.Logf("last: %s", got)
		}
	}()
	testutil.Eventually(s.T, 30*time.Second, what, func() (ok bool) { got, ok = f(); return ok })
}

func (s *stage) rates(what string, want []float64, all ...*agent) {
	s.Helper()
	s.eventually(what, func() (string, bool) {
		ok, text := true, ""
		for i, a := range all {
			r := a.rate()
			text += fmt.Sprintf("%.3f ", r/1e9)
			ok = ok && r > want[i]-0.02e9 && r < want[i]+0.02e9
		}
		return text, ok
	})
}

func ask(t *testing.T, c *bus.Conn, q Request) Response {
	t.Helper()
	var r Response
	testutil.Eventually(t, 30*time.Second, "an answer of a leader", func() bool { return c.Ask(q, &r) == nil })
	return r
}

func TestAFleetOverNATS(t *testing.T) {
	s := newStage(t)
	stop := s.lead("first")
	defer func() { stop() }()
	operator := s.operator()
	r := ask(t, operator, Request{Op: OpApply, Limits: shared.Limits{{Name: "wan", Rate: 1e9}}})
	if r.Err() != nil || strings.Join(r.Changes, "|") != "+ wan: 1 Gbit/s" {
		t.Fatalf("%+v", r)
	}
	a, b := s.agent("a.example", 100e6), s.agent("b.example", 0)
	s.rates("both want everything", []float64{0.5e9, 0.5e9}, a, b)
	b.setBusy(false)
	s.rates("one wants everything", []float64{0.995e9, 0.005e9}, a, b)
	b.setBusy(true)
	s.rates("both again", []float64{0.5e9, 0.5e9}, a, b)

	// A second candidate follows; the floors are saved.
	stop()
	if got := a.rate(); got == 0 {
		t.Error("without a leader a has no rate before its lease ends")
	}
	s.rates("without a leader", []float64{0.1e9, 0}, a, b)
	stop = s.lead("second")
	s.rates("with a new leader", []float64{0.5e9, 0.5e9}, a, b)

	// The server restarts with the same folder.
	stop()
	address := s.server.Address()
	s.server.Close()
	var err error
	if s.server, err = bus.Start(bus.ServerConfig{Fleet: fleet, Dir: s.dir, Listen: address, Log: s.log()}); err != nil {
		t.Fatal(err)
	}
	stop = s.lead("third")
	s.rates("after a restart of the server", []float64{0.5e9, 0.5e9}, a, b)

	// A limit below the guarantees is rejected, a lower one takes effect.
	if r := ask(t, operator, Request{Op: OpApply, Limits: shared.Limits{{Name: "wan", Rate: 50e6}}}); r.Err() == nil || !strings.Contains(r.Error, "below the guarantees") {
		t.Errorf("%+v", r)
	}
	if r := ask(t, operator, Request{Op: OpApply, Limits: shared.Limits{{Name: "wan", Rate: 0.4e9}}}); r.Err() != nil {
		t.Error(r.Err())
	}
	s.rates("a lower limit", []float64{0.2e9, 0.2e9}, a, b)

	// A host in contact cannot be removed, a silent one can.
	if r := ask(t, operator, Request{Op: OpRemove, Host: "a.example"}); r.Err() == nil {
		t.Error("a host in contact was removed")
	}
	a.stop()
	s.eventually("removal of a silent host", func() (string, bool) {
		r := ask(t, operator, Request{Op: OpRemove, Host: "a.example"})
		return r.Error, r.Err() == nil
	})
	s.rates("the rest", []float64{0.4e9}, b)
}

func TestCredentialsBoundTheirHost(t *testing.T) {
	s := newStage(t)
	stop := s.lead("only")
	defer stop()
	operator := s.operator()
	ask(t, operator, Request{Op: OpApply, Limits: shared.Limits{{Name: "wan", Rate: 1e9}}})
	victim := s.agent("victim", 0)
	s.rates("alone", []float64{1e9}, victim)

	mallory := s.enroll("mallory")
	c, err := bus.Dial(fleet, []string{s.server.Address()}, mallory, false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ask(Request{Op: OpApply}, new(Response)); err == nil {
		t.Error("a host's credentials can change the limits")
	}
	lie := wire.Report{Host: "victim", Boot: 1 << 62, Number: 1, Claims: []wire.Claim{{ID: "wan/egress", Limit: "wan", Weight: 1}}}
	var heard atomic.Bool
	_ = c.Grants("victim", func(wire.Grant) { heard.Store(true) })
	// While the victim gets ten more grants, the server rejects reports by its subject.
	for more := victim.grants.Load() + 10; victim.grants.Load() < more; time.Sleep(10 * time.Millisecond) {
		lie.Number++
		_ = c.Report(lie)
	}
	if got := victim.rate(); heard.Load() || got < 0.98e9 {
		t.Errorf("after reports of another host in its name the victim has %.3g; its grants were heard: %v", got, heard.Load())
	}
	if err := os.Chmod(mallory, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Dial(fleet, []string{s.server.Address()}, mallory, false); err == nil || !strings.Contains(err.Error(), "other users can read") {
		t.Error(err)
	}
	if _, err := bus.Expel(s.dir, "victim"); err != nil {
		t.Fatal(err)
	}
	if err := s.server.Reload(); err != nil {
		t.Fatal(err)
	}
	s.rates("after its credentials have ended", []float64{0}, victim)
}

// A host that floods the server with large messages is suspended, and others get grants meanwhile.
// The server's log stays short.
func TestAFloodSuspendsItsHost(t *testing.T) {
	s := newStage(t)
	defer s.lead("only")()
	go s.server.Maintain(t.Context())
	ask(t, s.operator(), Request{Op: OpApply, Limits: shared.Limits{{Name: "wan", Rate: 1e9}}})
	victim := s.agent("victim", 0)
	s.rates("alone", []float64{1e9}, victim)
	path := s.enroll("mallory")
	large := wire.Report{Host: "mallory", Boot: 1, Number: 1, Claims: []wire.Claim{{ID: strings.Repeat("x", 1<<20)}}}
	testutil.Eventually(t, 60*time.Second, "a suspension", func() bool {
		c, err := bus.Dial(fleet, []string{s.server.Address()}, path, false)
		if err != nil {
			return fault.Of(err) == fault.Permission
		}
		defer c.Close()
		for range 100 {
			if c.Report(large) != nil {
				break
			}
		}
		return false
	})
	for more := victim.grants.Load() + 10; victim.grants.Load() < more; time.Sleep(10 * time.Millisecond) {
		if _, err := bus.Dial(fleet, []string{s.server.Address()}, path, false); err == nil {
			t.Fatal("a suspended host can connect")
		}
	}
	s.rates("beside a suspended host", []float64{1e9}, victim)
}
